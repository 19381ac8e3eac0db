// Small pieces of drawing that every page uses.
function el(name, options, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(options || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

const shown = (text) => document.createTextNode(visible(String(text)));
const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
const signed = (value) => (value === null || value === undefined ? "–" : (value > 0 ? "+" : "") + Number(value).toFixed(3));
const seconds = (value) =>
  value === null || value === undefined || Number.isNaN(value)
    ? "–"
    : value < 10 ? value.toFixed(2) + " s" : value < 120 ? value.toFixed(1) + " s" : Math.round(value / 60) + " min";
const moment = (value) =>
  value === null || value === undefined ? "–" : new Date(value * 1000).toISOString().replace("T", " ").slice(0, 19) + " UTC";

function table(columns, rows, options) {
  return el("table", options, el("thead", null, el("tr", null, columns.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", null, rows.map((cells) => el("tr", null, cells.map((cell) =>
      el("td", null, cell instanceof Node ? cell : shown(cell === null || cell === undefined ? "–" : cell)))))));
}

const LONG = 20000;

// A text block: marks what is searched for, and holds back what is very long until it is asked for.
function block(text, mark) {
  const whole = visible(text);
  const pre = el("pre", { dir: "auto" });
  const fill = (part) => {
    pre.replaceChildren();
    if (!mark) return pre.append(part);
    const low = part.toLowerCase();
    let from = 0;
    for (let at = low.indexOf(mark), hits = 0; at >= 0 && hits < 500; at = low.indexOf(mark, from), hits++) {
      pre.append(part.slice(from, at), el("mark", null, part.slice(at, at + mark.length)));
      from = at + mark.length;
    }
    pre.append(part.slice(from));
  };
  const hit = mark ? whole.toLowerCase().indexOf(mark) : -1;
  if (whole.length <= LONG || hit >= LONG) {
    fill(whole);
    return pre;
  }
  fill(whole.slice(0, LONG));
  const more = el("button", { type: "button", class: "more", onclick: () => { fill(whole); more.remove(); } },
    `show all ${number(whole.length)} characters`);
  return el("div", null, pre, more);
}

// A fold that draws its inside when it is first opened.
function fold(summary, draw, options) {
  const { open, ...rest } = options || {};
  const details = el("details", rest, el("summary", null, summary));
  let drawn = false;
  const fill = () => { if (details.open && !drawn) { drawn = true; details.append(draw()); } };
  details.addEventListener("toggle", fill);
  if (open) { details.open = true; fill(); }
  return details;
}

function themeButton() {
  const root = document.documentElement;
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const button = el("button", { type: "button", id: "theme", title: "Light or dark (t)", onclick: () => {
    root.dataset.theme = dark() ? "light" : "dark";
    say();
  } });
  const say = () => { button.textContent = dark() ? "light" : "dark"; };
  say();
  return button;
}
