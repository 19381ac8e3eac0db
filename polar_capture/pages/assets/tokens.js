// The token view: blocks of a few hundred tokens, drawn when they come near the window and emptied when they leave it.
const BLOCK_TOKENS = 256;
const LONGEST_BLOCK = 1024;
const BINS = [0.9, 0.6, 0.3, 0.1];
const binOf = (logprob) => {
  const p = Math.exp(logprob);
  const found = BINS.findIndex((bound) => p >= bound);
  return found < 0 ? BINS.length : found;
};

function tokenLegend() {
  const bins = ["≥ 0.9", "≥ 0.6", "≥ 0.3", "≥ 0.1", "< 0.1"];
  return el("p", { class: "legend" }, "sampled, by probability: ",
    bins.map((text, bin) => [el("span", { class: `t s b${bin}` }, text), " "]),
    el("span", { class: "t s b1 m" }, "sampled, mask 0"), " ", el("span", { class: "t" }, "inserted, mask 0"));
}

// Where the blocks of ids[from:] begin, and their end: behind a line break where one is near, since a block is a line of its own.
function blockEdges(ids, from) {
  const edges = [from];
  for (let at = from, begin = from; at < ids.length; at++) {
    const piece = DATA.vocabulary[ids[at]];
    const breaks = typeof piece === "string" && piece.endsWith("\n");
    const length = at + 1 - begin;
    if ((breaks && length >= BLOCK_TOKENS) || length === LONGEST_BLOCK) edges.push(begin = at + 1);
  }
  if (edges[edges.length - 1] < ids.length) edges.push(ids.length);
  return edges;
}

// The place of the block that holds token `at`.
function blockOf(edges, at) {
  let [low, high] = [0, edges.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (edges[middle] <= at) low = middle;
    else high = middle;
  }
  return low;
}

// `which`: "all" tokens of call n's context, "new" ones since the call that it continues, or "sampled" by it.
function tokenView(n, which) {
  const call = DATA.calls[n];
  const ids = idsOf(n);
  if (!ids) return el("p", { class: "note" }, "The engine gave no token ids for this call.");
  const spans = spansOf(n);
  const before = call.parent === null ? (call.break ? call.break.at : 0) : sizesOf(call.parent).whole;
  const from = which === "sampled" ? sizesOf(n).prompt : which === "new" ? before : 0;
  const view = el("div", { class: "tokens", tabindex: 0, role: "group", "aria-label":
    `tokens ${number(from)} to ${number(ids.length)}; left and right arrows read them one by one` });
  const owner = (at) => spans.find((span) => at >= span.start && at < span.end);
  const about = (at) => {
    const span = owner(at);
    const id = ids[at];
    const lines = [`token ${number(at)} · id ${id}`, `text ${JSON.stringify(visible(pieces(ids, at, at + 1)[0]))}`];
    if (!span) return lines.concat("inserted by the template, a tool or the harness · mask 0");
    const logprobs = logprobsOf(span.call);
    const value = logprobs ? logprobs[at - span.start] : NaN;
    lines.push(Number.isNaN(value) ? "no logprob" : `logprob ${value.toFixed(4)} · probability ${Math.exp(value).toFixed(4)}`);
    const source = DATA.calls[span.call];
    return lines.concat(`sampled in call ${source.seq} · ${source.trained ? "mask 1" : "mask 0" + (source.why ? ": " + source.why : "")}`);
  };
  const draw = (node) => {
    const [begin, end] = [Number(node.dataset.from), Number(node.dataset.to)];
    const texts = pieces(ids, begin, end);
    const part = document.createDocumentFragment();
    for (let at = begin; at < end; at++) {
      const span = owner(at);
      let kind = "t";
      if (span) {
        const logprobs = logprobsOf(span.call);
        kind = `t s b${logprobs ? binOf(logprobs[at - span.start]) : "x"}${DATA.calls[span.call].trained ? "" : " m"}`;
      }
      const mark = el("span", { class: kind, "data-at": at });
      mark.textContent = visible(texts[at - begin]).replaceAll("\n", "\u21b5\n") || "\u2205";
      part.append(mark);
    }
    node.replaceChildren(part);
    node.style.minHeight = "";
  };
  const watcher = drawnInSight(draw);
  const edges = blockEdges(ids, from);
  for (let place = 0; place + 1 < edges.length; place++) {
    const node = el("div", { class: "block", "data-from": edges[place], "data-to": edges[place + 1] });
    node.style.minHeight = "18em";
    view.append(node);
    watcher.observe(node);
  }
  if (from === ids.length) view.append(el("p", { class: "note" }, "no tokens"));
  const markOf = (at) => {
    const block = blockOf(edges, at);
    const node = view.children[block];
    if (!node.firstChild) draw(node);
    return node.children[at - edges[block]];
  };
  bindTooltip(view, about, from, ids.length, markOf);
  view.toSampled = () => {
    const at = sizesOf(n).prompt;
    if (at >= ids.length) return;
    // Blocks above it get their real height when they are drawn, so it moves once more.
    for (const wait of [0, 60, 200]) setTimeout(() => { if (view.isConnected) markOf(at).scrollIntoView({ block: "center" }); }, wait);
  };
  return view;
}

// Calls draw(node) for nodes that come near the window, and empties those that leave it.
function drawnInSight(draw) {
  return new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) {
        if (!target.firstChild) draw(target);
      } else if (target.firstChild && target.offsetHeight) {
        target.style.minHeight = target.offsetHeight + "px";
        target.replaceChildren();
      }
    }
  }, { rootMargin: "800px" });
}

const tooltip = el("div", { id: "tooltip", role: "tooltip", hidden: true });
const reader = el("div", { id: "reader", "aria-live": "polite", class: "unseen" });

function showTooltip(lines, node) {
  tooltip.replaceChildren(...lines.map((line) => el("div", null, line)));
  tooltip.hidden = false;
  const box = node.getBoundingClientRect();
  const left = Math.min(Math.max(8, box.left), innerWidth - tooltip.offsetWidth - 8);
  const above = box.top - tooltip.offsetHeight - 6;
  tooltip.style.left = left + "px";
  tooltip.style.top = (above > 4 ? above : box.bottom + 6) + "px";
}

// `about(at)` gives the lines of a token, `markOf(at)` its element.
function bindTooltip(view, about, from, to, markOf) {
  let current = null;
  view.addEventListener("mouseover", (event) => {
    const node = event.target.closest("[data-at]");
    if (node) showTooltip(about(Number(node.dataset.at)), node);
  });
  view.addEventListener("mouseleave", () => { tooltip.hidden = true; });
  view.addEventListener("blur", () => { tooltip.hidden = true; });
  view.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    if (current === null) current = step === -1 ? to : from - 1;
    current += step;
    current = Math.max(from, Math.min(to - 1, current));
    const mark = markOf(current);
    for (const old of view.querySelectorAll(".here")) old.classList.remove("here");
    mark.classList.add("here");
    mark.scrollIntoView({ block: "nearest" });
    const lines = about(current);
    showTooltip(lines, mark);
    reader.textContent = lines.join(", ");
  });
}

// Where a chain broke: the tokens that were expected there, and those that came.
function breakView(n) {
  const { kind, at, lost, predecessor } = DATA.calls[n].break;
  const [was, is] = [idsOf(predecessor), idsOf(n)];
  const row = (ids, end) => {
    const [begin, stop] = [Math.max(0, at - 8), Math.min(end, at + 24)];
    const texts = pieces(ids, begin, stop);
    return el("div", { class: "tokens short" }, texts.map((text, place) => {
      const mark = el("span", { class: begin + place < at ? "t" : "t differs", title: `id ${ids[begin + place]}` });
      mark.textContent = visible(text).replaceAll("\n", "\u21b5");
      return mark;
    }));
  };
  return el("section", { class: "break" },
    el("h3", null, `Does not continue call ${DATA.calls[predecessor].seq}: ${kind}`),
    el("p", null, DATA.breaks[kind] || "", ` The tokens agree up to ${number(at)}; ${number(lost)} tokens of that call are not in this context.`),
    el("dl", null, el("dt", null, `call ${DATA.calls[predecessor].seq} went on`), el("dd", null, row(was, was.length)),
      el("dt", null, "this prompt has"), el("dd", null, row(is, sizesOf(n).prompt))));
}
