// The group page: one table, then the samples side by side, each turn coloured by logprob.
(() => {
  const { group, members } = DATA;
  const FIRST_TOKENS = 600;
  const drawTurn = new Map();
  const watcher = drawnInSight((view) => drawTurn.get(view)());

  function header() {
    const facts = [["task", group.task_id], ["sessions", number(group.sessions)], ["rewarded", number(group.rewarded)],
      ["mean reward", group.reward_mean === null ? "–" : Number(group.reward_mean).toFixed(3)],
      ["variance", group.reward_variance === null ? "–" : Number(group.reward_variance).toFixed(4)],
      ["sampled", number(group.completion_tokens) + " tokens"], group.zero_variance ? ["note", "all rewards are equal: nothing is learnt"] : null];
    return el("header", null,
      el("div", { class: "line" }, el("h1", null, shown(`group ${group.group_id}`)), themeButton()),
      el("dl", { class: "about" }, facts.filter((fact) => fact && fact[1]).map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, shown(value))))),
      el("div", { class: "scrolled", tabindex: members.length > 8 ? 0 : null }, table(["session", "sample", "status", "reward", "advantage", "verdict", "turns", "sampled", "longest prompt", "breaks", "first divergence"],
        members.map((member) => [member.session_id, member.sample_index, member.status, member.reward, signed(member.advantage), member.verdicts.join(", ") || "not built",
          member.turns.length, number(member.completion_tokens), number(member.longest_prompt), member.breaks.join(", ") || "none", where(member)]), { id: "members" })),
      DATA.note ? el("p", { class: "note" }, shown(DATA.note)) : null, tokenLegend());
  }

  function where(member) {
    if (member === members[0]) return "(compared with)";
    const found = member.divergence;
    if (!found) return "none";
    if (found.part === "end") return `one ends before turn ${found.turn + 1}`;
    const sampled = member.sampled_divergence;
    const first = `turn ${found.turn + 1}, ${found.part} token ${number(found.at)}`;
    if (found.part !== "prompt") return first;
    return first + (sampled ? `; sampled: turn ${sampled.turn + 1}, token ${number(sampled.at)}` : "; sampled the same");
  }

  function turnView(member, turn, place) {
    const found = member.divergence;
    const parted = found && found.turn === place;
    const sampled = member.sampled_divergence;
    const ids = new Int32Array(bytesOf(turn.sampled).buffer);
    const logprobs = turn.logprobs === null ? null : new Float32Array(bytesOf(turn.logprobs).buffer);
    let texts = null;
    const mark = (at) => {
      const first = sampled && sampled.turn === place && sampled.at === at;
      const node = el("span", { class: `t s b${logprobs ? binOf(logprobs[at]) : "x"}${turn.why ? " m" : ""}${first ? " differs" : ""}`, "data-at": at });
      node.textContent = visible(texts[at]).replaceAll("\n", "\u21b5\n") || "\u2205";
      return node;
    };
    const view = el("div", { class: "tokens", tabindex: 0, role: "group", "aria-label": `turn ${place + 1}: ${ids.length} sampled tokens` });
    let until = Math.min(FIRST_TOKENS, ids.length);
    drawTurn.set(view, () => {
      texts = texts || pieces(ids, 0, ids.length);
      const part = document.createDocumentFragment();
      for (let at = 0; at < until; at++) part.append(mark(at));
      if (until < ids.length) part.append(el("button", { type: "button", class: "more", onclick: () => { until = ids.length; drawTurn.get(view)(); } }, `show all ${number(ids.length)} tokens`));
      view.replaceChildren(part);
      view.style.minHeight = "";
    });
    view.style.minHeight = "6em";
    watcher.observe(view);
    bindTooltip(view, (at) => [`sampled token ${number(at)} · id ${ids[at]}`, `text ${JSON.stringify(visible(texts[at]))}`,
      logprobs ? `logprob ${logprobs[at].toFixed(4)} · probability ${Math.exp(logprobs[at]).toFixed(4)}` : "no logprob",
      turn.why ? `mask 0: ${turn.why}` : "mask 1"], 0, ids.length, (at) => {
      if (at >= until || !view.firstChild) { until = Math.max(until, at + 1); drawTurn.get(view)(); }
      return view.children[at];
    });
    return el("article", { class: parted ? "parted" : "" },
      el("h3", { class: "label" }, `turn ${place + 1} · ${number(turn.prompt_tokens)} prompt + ${number(ids.length)} · ${turn.finish_reason || ""}`,
        parted ? el("span", { class: "bad" }, ` · first divergence in the ${found.part}`) : "", turn.why ? el("span", { class: "flag bad" }, shown(turn.why)) : ""), view);
  }

  document.body.append(header(), el("main", { class: "columns" }, members.map((member) =>
    el("section", { "aria-label": `session ${member.session_id}`, tabindex: 0 },
      el("h2", null, shown(member.session_id)), el("p", null, `reward ${member.reward === null ? "none" : member.reward} · advantage ${signed(member.advantage)}`),
      member.turns.map((turn, place) => turnView(member, turn, place))))), tooltip, reader);
  document.addEventListener("keydown", (event) => {
    if (event.key === "t") document.getElementById("theme").click();
    if (event.key === "Escape") tooltip.hidden = true;
  });
})();
