// The list of calls: order of arrival downwards, the token tree as lanes, time as bars. Only rows in sight are drawn.
const ROW = 46;
const LANE = 12;
const MOST_LANES = 8;

// A lane for each call: that of the call it continues, or a fresh one for a second continuation, a break or a root.
function lanesOf(calls) {
  const taken = new Map();
  const agents = new Map();
  let free = 0;
  return calls.map((call, n) => {
    const from = call.parent !== null ? call.parent : call.break ? call.break.predecessor : null;
    let lane;
    if (call.parent !== null && !taken.has(call.parent)) {
      lane = calls[call.parent].lane;
      taken.set(call.parent, n);
    } else if (call.parent === null && agents.has(call.agent)) {
      lane = agents.get(call.agent);
    } else {
      lane = free++;
    }
    if (!agents.has(call.agent)) agents.set(call.agent, lane);
    call.lane = Math.min(lane, MOST_LANES - 1);
    return { lane: call.lane, from };
  });
}

function svg(name, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

class CallList {
  constructor(calls, choose) {
    this.calls = calls;
    this.choose = choose;
    this.lanes = lanesOf(calls);
    this.width = Math.max(1, ...this.lanes.map((place) => place.lane + 1)) * LANE + 4;
    this.below = calls.map(() => []);
    this.lanes.forEach((place, n) => { if (place.from !== null) this.below[place.from].push(n); });
    this.begin = Math.min(...calls.map((call) => call.started_at));
    this.end = Math.max(...calls.map((call) => call.finished_at || call.started_at), this.begin + 0.001);
    this.rows = calls.map((_, n) => n);
    this.chosen = null;
    this.inner = el("div", { class: "rows" });
    this.node = el("div", { id: "calls", role: "listbox", tabindex: 0, "aria-label": "calls, in order of arrival" }, this.inner);
    this.node.addEventListener("scroll", () => this.draw());
    this.node.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  only(rows) {
    this.rows = rows;
    this.drawn = null;
    this.draw();
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.node.clientHeight / ROW) - 1);
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (!step || !this.rows.length) return;
    event.preventDefault();
    const place = Math.max(0, Math.min(this.rows.length - 1, Math.max(0, this.rows.indexOf(this.chosen)) + step));
    this.choose(this.rows[place]);
  }

  mark(n) {
    this.chosen = n;
    const top = Math.max(0, this.rows.indexOf(n)) * ROW;
    if (top < this.node.scrollTop) this.node.scrollTop = top;
    if (top + ROW > this.node.scrollTop + this.node.clientHeight) this.node.scrollTop = top + ROW - this.node.clientHeight;
    this.drawn = null;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.node.scrollTop / ROW) - 4);
    const last = Math.min(this.rows.length, first + Math.ceil(this.node.clientHeight / ROW) + 8);
    if (this.drawn === `${first}-${last}`) return;
    this.drawn = `${first}-${last}`;
    this.inner.style.height = this.rows.length * ROW + "px";
    this.inner.replaceChildren(...this.rows.slice(first, last).map((n, place) => this.row(n, (first + place) * ROW)));
    this.node.setAttribute("aria-activedescendant", `call-${this.chosen}`);
  }

  row(n, top) {
    const call = this.calls[n];
    const who = [call.agent === "main" ? "" : call.agent, call.kind === "turn" ? "" : call.kind].filter(Boolean).join(" ");
    const gap = this.gapBefore(n);
    const row = el("div", { class: `row ${n === this.chosen ? "chosen" : ""}`, role: "option", id: `call-${n}`,
      "aria-selected": n === this.chosen ? "true" : "false", onclick: () => this.choose(n) },
      this.tree(n),
      el("div", { class: "words" },
        el("div", null, el("b", null, String(call.seq)), " ", who ? el("span", { class: "who" }, shown(who), " ") : null,
          el("span", { class: "said", dir: "auto" }, shown(summary(call)))),
        el("div", { class: "small" }, `${number(call.prompt_tokens)} + ${number(call.completion_tokens)} `,
          call.attempt ? el("span", { class: "flag" }, `retry ${call.attempt}`) : null,
          call.break ? el("span", { class: "flag broken" }, call.break.kind) : null,
          call.why ? el("span", { class: "flag bad" }, call.why) : null,
          call.warnings.length ? el("span", { class: "flag warn", title: call.warnings.join(", ") }, `${call.warnings.length} warning${call.warnings.length > 1 ? "s" : ""}`) : null)),
      el("div", { class: "time", title: `waited ${seconds(gap)} for the harness, then ${seconds(call.finished_at - call.started_at)}, engine ${seconds(call.upstream_ms / 1000)}` },
        this.bar(call), el("div", { class: "small" }, seconds(call.finished_at === null ? null : call.finished_at - call.started_at),
          gap > 0.05 ? el("span", { class: "gap" }, ` after ${seconds(gap)}`) : null)));
    row.style.top = top + "px";
    return row;
  }

  // Seconds in which the harness was busy with something else before this call.
  gapBefore(n) {
    const earlier = this.calls.slice(0, n).map((call) => call.finished_at || 0);
    return earlier.length ? Math.max(0, this.calls[n].started_at - Math.max(...earlier)) : 0;
  }

  bar(call) {
    const scale = 100 / (this.end - this.begin);
    const bar = el("div", { class: "bar" });
    const whole = el("i", { class: "whole" });
    const engine = el("i", { class: "engine" });
    const took = (call.finished_at || call.started_at) - call.started_at;
    whole.style.left = engine.style.left = (call.started_at - this.begin) * scale + "%";
    whole.style.width = Math.max(0.8, took * scale) + "%";
    engine.style.width = Math.max(0.4, Math.min(took, (call.upstream_ms || 0) / 1000) * scale) + "%";
    bar.append(whole, engine);
    return bar;
  }

  tree(n) {
    const call = this.calls[n];
    const picture = svg("svg", { width: this.width, height: ROW, "aria-hidden": "true" });
    const x = (lane) => lane * LANE + 8;
    const middle = ROW / 2;
    const place = this.lanes[n];
    for (let other = 0; other < this.calls.length; other++) {
      const from = this.lanes[other].from;
      if (from === null || other < n || from > n) continue;
      const broken = this.calls[other].parent === null;
      const kind = { class: broken ? "edge broken" : "edge" };
      if (from < n && other > n) picture.append(svg("line", { ...kind, x1: x(this.lanes[from].lane), x2: x(this.lanes[from].lane), y1: 0, y2: ROW }));
      if (from === n && other > n) picture.append(svg("line", { ...kind, x1: x(place.lane), x2: x(place.lane), y1: middle, y2: ROW }));
      if (other === n && from < n) {
        const lane = this.lanes[from].lane;
        picture.append(svg("path", { ...kind, fill: "none", d: `M${x(lane)} 0 C${x(lane)} ${middle} ${x(place.lane)} 0 ${x(place.lane)} ${middle}` }));
      }
    }
    picture.append(svg("circle", { class: call.why ? "dot bad" : "dot", cx: x(place.lane), cy: middle, r: 4 }));
    return picture;
  }
}

function summary(call) {
  if (call.error) return call.error;
  const message = call.message;
  if (!message || typeof message !== "object") return call.status;
  const parts = [textOf(message.content).trim()];
  for (const tool of message.tool_calls || []) parts.push(`→ ${functionOf(tool).name}(${functionOf(tool).arguments || ""})`);
  return parts.filter(Boolean).join(" ").replace(/\s+/g, " ").slice(0, 160) || (message.reasoning ? "(thinking only)" : "(nothing)");
}
