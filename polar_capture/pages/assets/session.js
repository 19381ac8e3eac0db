// The session page: header, search, the list of calls, and the chosen call in four views.
(() => {
  const { session, calls, rewards, samples } = DATA;
  const views = { conversation: "Conversation", tokens: "Tokens", echo: "Echo", facts: "Columns" };
  const state = { call: null, view: "conversation", which: "new", query: "" };
  const detail = el("section", { id: "detail", tabindex: -1, "aria-label": "the chosen call" });
  const found = el("span", { id: "found", role: "status" });
  const search = el("input", { id: "search", type: "search", placeholder: "Search text or id:123  ( / )", "aria-label": "search in all calls" });
  const list = calls.length ? new CallList(calls, choose) : null;

  function header() {
    const outcome = rewards.filter((reward) => reward.name === "outcome" && !reward.call_id).pop();
    const untrained = calls.filter((call) => call.why);
    const reasons = new Map();
    for (const call of untrained) reasons.set(call.why, (reasons.get(call.why) || 0) + 1);
    const busy = calls.reduce((sum, call) => sum + ((call.finished_at || call.started_at) - call.started_at), 0);
    const engine = calls.reduce((sum, call) => sum + (call.upstream_ms || 0) / 1000, 0);
    const last = Math.max(...calls.map((call) => call.finished_at || call.started_at));
    const facts = [
      ["status", session.status], ["harness", [session.harness, session.harness_version].filter(Boolean).join(" ")],
      ["task", session.task_id], ["group", session.group_id], ["started", moment(session.started_at)],
      ["calls", number(calls.length)], ["sampled", number(calls.reduce((sum, call) => sum + (call.completion_tokens || 0), 0)) + " tokens"],
      ["took", calls.length ? `${seconds(last - calls[0].started_at)}: calls ${seconds(busy)}, of which engine ${seconds(engine)}` : null],
      ["not trained", untrained.length ? [...reasons].map(([reason, count]) => `${reason} ${count}`).join(", ") : null],
      ["token texts", DATA.tokenizer && DATA.tokenizer.startsWith("/") ? DATA.tokenizer.split("/").pop() : DATA.tokenizer],
      ["reward", outcome ? String(outcome.value) : "none"],
      ["samples", samples.length ? samples.map((sample) => `${sample.agent} ${sample.verdict}`).join(", ") : "not built yet"],
    ];
    return el("header", null,
      el("div", { class: "line" }, el("h1", null, shown(session.id)), search, found, themeButton()),
      el("dl", { class: "about" }, facts.filter(([, value]) => value).map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, shown(value))))),
      el("div", { class: "folds" },
        rewards.length ? fold(`reward history (${rewards.length})`, () => table(["when", "name", "value", "call", "source", "comment"],
          rewards.map((reward) => [moment(reward.created_at), reward.name, reward.value, numberOf(reward.call_id), reward.source, reward.comment])), { id: "rewards" }) : null,
        samples.length ? fold(`samples (${samples.length})`, () => table(["strategy", "agent", "branch", "verdict", "tokens", "trained", "reward", "advantage"],
          samples.map((sample) => [sample.strategy, sample.agent, sample.branch, sample.verdict, number(sample.length),
            number(sample.turn_spans.filter((span) => span.trained !== false).reduce((sum, span) => sum + span.end - span.start, 0)),
            sample.reward, signed(sample.advantage)])), { id: "samples" }) : null),
      DATA.note ? el("p", { class: "note" }, shown(DATA.note)) : null);
  }

  const numberOf = (id) => { const call = calls.find((other) => other.id === id); return call ? `call ${call.seq}` : null; };

  let toSampled = null;

  function choose(n) {
    state.call = n;
    tooltip.hidden = true;
    list.mark(n);
    drawCall();
    history.replaceState(null, "", "#" + calls[n].id);
  }

  function drawCall() {
    const n = state.call;
    const call = calls[n];
    const tabs = el("div", { role: "tablist", "aria-label": "views of the call" }, Object.entries(views).map(([name, title], place) =>
      el("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-selected": state.view === name ? "true" : "false",
        "aria-controls": "view", title: `${title} (${place + 1})`, onclick: () => { state.view = name; drawCall(); document.getElementById(`tab-${name}`).focus(); } },
      name === "echo" ? `${title} (${call.echoes.length})` : title)));
    toSampled = null;
    const body = el("div", { id: "view", role: "tabpanel", "aria-labelledby": `tab-${state.view}` });
    if (state.view === "conversation") body.append(conversationView(n, state.query));
    else if (state.view === "echo") body.append(echoView(n));
    else if (state.view === "facts") body.append(factsView(n));
    else {
      const tokens = tokenView(n, state.which);
      toSampled = tokens.toSampled || null;
      body.append(tokenControls(), tokenLegend(), tokens);
    }
    detail.replaceChildren(
      el("h2", null, `Call ${call.seq}`, call.choice_index ? ` · choice ${call.choice_index}` : "", " ", el("small", null, shown(`${call.agent} · ${call.dialect} · ${call.host}${call.path}`))),
      verdict(call), call.break ? breakView(n) : "", tabs, body);
    detail.scrollTop = 0;
  }

  function verdict(call) {
    const parts = call.why
      ? [el("span", { class: "flag bad" }, `not trainable: ${call.why}`), " ", DATA.reasons[call.why] || "", call.error ? " " : "", call.error ? shown(call.error) : ""]
      : [el("span", { class: `flag ${call.trained ? "good" : "warn"}` }, call.trained ? "trainable" : "trainable, not in a sample")];
    const values = logprobsOf(state.call);
    if (values && values.length) parts.push(` mean logprob ${(values.reduce((sum, value) => sum + value, 0) / values.length).toFixed(3)}`);
    for (const warning of call.warnings) parts.push(" ", el("span", { class: "flag warn" }, shown(warning)));
    return el("p", null, parts);
  }

  function tokenControls() {
    const names = { new: "new since the call before", sampled: "sampled only", all: "whole context" };
    return el("fieldset", { class: "which" }, el("legend", { class: "unseen" }, "which tokens"), Object.entries(names).map(([name, title]) =>
      el("label", null, el("input", { type: "radio", name: "which", value: name, checked: state.which === name,
        onchange: () => { state.which = name; drawCall(); document.querySelector(`[name=which][value=${name}]`).focus(); } }), title)),
      toSampled && state.which !== "sampled" ? el("button", { type: "button", id: "to-sampled", title: "Scroll to the first sampled token (s)", onclick: toSampled }, "to the sampled ↓") : null);
  }

  // --- search

  const haystacks = new Map();
  function haystack(n) {
    if (!haystacks.has(n)) {
      const call = calls[n];
      const texts = [call.agent, call.kind, call.why, call.error, call.id, call.finish_reason, JSON.stringify(call.message || ""), textOf((call.message || {}).content), (call.message || {}).reasoning];
      if (call.break) texts.push(call.break.kind);
      if (call.messages) for (const at of call.messages.rest) texts.push(textOf(DATA.messages[at].content), DATA.messages[at].reasoning, JSON.stringify(DATA.messages[at].tool_calls || ""));
      haystacks.set(n, visible(texts.filter(Boolean).join("\n")).toLowerCase());
    }
    return haystacks.get(n);
  }

  function hits(query) {
    const id = /^id:(\d+)$/.exec(query);
    if (!id) return calls.map((_, n) => n).filter((n) => haystack(n).includes(query));
    return calls.map((_, n) => n).filter((n) => {
      const ids = idsOf(n);
      return ids && ids.subarray(sizesOf(n).prompt).includes(Number(id[1]));
    });
  }

  function find() {
    state.query = search.value.trim().toLowerCase();
    const rows = state.query ? hits(state.query) : calls.map((_, n) => n);
    found.textContent = state.query ? `${rows.length} of ${calls.length} calls` : "";
    list.only(rows);
    if (rows.length && !rows.includes(state.call)) choose(rows[0]);
    else if (state.call !== null) drawCall();
  }

  let later;
  search.addEventListener("input", () => { clearTimeout(later); later = setTimeout(find, 120); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === search) {
      if (event.key === "Escape") { search.value = ""; find(); list.node.focus(); }
      if (event.key === "Enter") { clearTimeout(later); find(); list.node.focus(); }
      return;
    }
    if (event.key === "/") { event.preventDefault(); search.focus(); }
    if (event.key === "t") document.getElementById("theme").click();
    if (event.key === "s" && toSampled) toSampled();
    if (event.key === "Escape") tooltip.hidden = true;
    const view = Object.keys(views)[Number(event.key) - 1];
    if (view) { state.view = view; drawCall(); }
  });

  document.body.append(header(), el("main", null, list ? list.node : el("p", { class: "note" }, "This session has no calls."), detail), tooltip, reader);
  if (list) {
    const wanted = DATA.chosen || decodeURIComponent(location.hash.slice(1));
    const at = calls.findIndex((call) => call.id === wanted || String(call.seq) === wanted);
    choose(Math.max(0, at));
    list.node.focus({ preventScroll: true });
  }
})();
