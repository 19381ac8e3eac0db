// Messages: what the harness said, what the model sampled, and how a sampled turn came back.
function messageView(message, mark, sampled) {
  const role = sampled ? "sampled" : message.role || "?";
  const node = el("article", { class: `message ${["system", "user", "assistant", "tool", "sampled"].includes(role) ? role : ""}` },
    el("h3", { class: "label" }, shown(role + (message.name ? " " + message.name : ""))));
  const thought = message.reasoning || message.reasoning_content;
  if (thought) {
    node.append(fold(`thinking · ${number(thought.length)} characters`, () => block(thought, mark),
      { class: "thinking", open: sampled || holds(thought, mark) }));
  }
  const text = textOf(message.content);
  if (role === "tool" || (role === "system" && text.length > 600)) {
    node.append(fold([el("span", null, role === "tool" ? "result" : "system prompt"), ` · ${number(text.length)} characters · `,
      el("span", { class: "peek", dir: "auto" }, shown(firstLine(text)))], () => block(text, mark), { class: "result", open: holds(text, mark) }));
  } else if (text) {
    node.append(block(text, mark));
  }
  for (const call of message.tool_calls || []) {
    const { name, arguments: given } = functionOf(call);
    const spelled = typeof given === "string" ? given : JSON.stringify(given);
    node.append(fold([el("span", null, "tool call "), el("code", null, shown(name)), " ", el("span", { class: "peek", dir: "auto" }, shown(firstLine(spelled || "")))],
      () => block(readable(spelled || ""), mark), { class: "toolcall", open: holds(spelled, mark) }));
  }
  return node;
}

const holds = (text, mark) => Boolean(mark && text && text.toLowerCase().includes(mark));
const firstLine = (text) => text.trim().split("\n", 1)[0].slice(0, 120);

function readable(spelled) {
  try {
    return JSON.stringify(JSON.parse(spelled), null, 2);
  } catch {
    return spelled;
  }
}

function conversationView(n, mark) {
  const call = DATA.calls[n];
  const node = el("div", { class: "conversation" });
  if (!call.messages) {
    node.append(el("p", { class: "note" }, "No prompt was kept for this call."));
  } else {
    const all = messagesOf(n);
    const keep = Math.min(call.messages.base < 0 ? 0 : call.messages.keep, all.length);
    if (keep) {
      node.append(fold(`${number(keep)} earlier messages, as in call ${DATA.calls[call.messages.base].seq}`,
        () => el("div", null, all.slice(0, keep).map((at) => messageView(DATA.messages[at], mark))), { class: "earlier" }));
    }
    if (call.messages.tools !== null) {
      const tools = DATA.tools[call.messages.tools];
      node.append(fold([`${number(tools.length)} tools: `, el("span", { class: "peek" }, shown(tools.map((tool) => functionOf(tool).name).join(", ")))],
        () => block(JSON.stringify(tools, null, 1), mark), { class: "tools" }));
    }
    for (const at of all.slice(keep)) node.append(messageView(DATA.messages[at], mark));
  }
  if (call.message && typeof call.message === "object") node.append(messageView(call.message, mark, true));
  else if (call.error) node.append(el("p", { class: "fault" }, shown(call.error)));
  return node;
}

// Whether call n's prompt begins with the tokens of call `of`, exactly.
function continues(n, of) {
  for (let at = DATA.calls[n].parent; at !== null; at = DATA.calls[at].parent) if (at === of) return true;
  return false;
}

function echoView(n) {
  const call = DATA.calls[n];
  if (!call.echoes.length) {
    return el("p", { class: "note" }, "This request brings no sampled turn back that was not seen before in the same words.");
  }
  return el("div", { class: "echoes" }, call.echoes.map((echo) => el("section", null,
    el("h3", null, `Call ${DATA.calls[echo.of].seq}, as the harness sent it back: `,
      echo.fields.every((field) => field.same) ? el("span", { class: "good" }, "word by word") : el("span", { class: "bad" }, "changed")),
    continues(n, echo.of) ? el("p", { class: "note" }, "In this call's context its tokens stand as they were sampled.")
      : el("p", { class: "note" }, "This call's context does not hold its tokens as they were sampled."),
    echo.fields.map((field) => el("div", null, el("h4", null, shown(field.name), field.same ? " · same" : " · differs"),
      el("pre", { dir: "auto", class: "diff" }, field.segments.map(([kind, text]) =>
        kind === "=" ? shown(text) : el(kind === "-" ? "del" : "ins", { title: kind === "-" ? "only sampled" : "only echoed" }, shown(text)))))))));
}

function factsView(n) {
  const call = DATA.calls[n];
  const hidden = new Set(["tokens", "messages", "message", "echoes", "break", "parent", "trained", "why"]);
  const rows = Object.entries(call).filter(([name, value]) => !hidden.has(name) && value !== null &&
    !(typeof value === "object" && !Object.keys(value).length));
  return table(["column", "value"], rows.map(([name, value]) => [name,
    name.endsWith("_at") ? moment(value) : typeof value === "object" ? JSON.stringify(value, null, 1) : String(value)]), { class: "facts" });
}
