// The page's data, and captured text made safe to look at. Text reaches the document as text nodes only.
const DATA = JSON.parse(document.getElementById("data").textContent);

const CONTROLS = "NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US".split(" ");
const NAMED = {
  0x7f: "DEL", 0xad: "SHY", 0x61c: "ALM",
  0x200b: "ZWSP", 0x200e: "LRM", 0x200f: "RLM", 0x202a: "LRE", 0x202b: "RLE", 0x202c: "PDF", 0x202d: "LRO",
  0x202e: "RLO", 0x2028: "LSEP", 0x2029: "PSEP", 0x2060: "WJ", 0x2066: "LRI", 0x2067: "RLI", 0x2068: "FSI", 0x2069: "PDI",
  0xfeff: "BOM",
};
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}\ud800-\udfff]/gu;
// Unicode's tag characters spell ASCII that no font draws: the usual way to hide instructions in a text.
const TAGS = 0xe0000;

// Characters that would act or not be seen (terminal codes, direction overrides, tags, NUL, lone surrogates) as signs.
function visible(text) {
  return text.replace(UNSEEN, (character) => {
    const code = character.codePointAt(0);
    const name = code >= TAGS + 0x20 && code < TAGS + 0x7f ? "TAG " + String.fromCharCode(code - TAGS)
      : CONTROLS[code] || NAMED[code] || "U+" + code.toString(16).toUpperCase().padStart(4, "0");
    return "\u27e8" + name + "\u27e9";
  });
}

function bytesOf(base64) {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

const lengthOf = (base64) => (base64.length / 4) * 3 - (base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0);

// Lengths in tokens of call number n, {prompt, whole}; null without ids. Nothing is unpacked for it.
function sizesOf(n) {
  const packed = DATA.calls[n].tokens;
  if (!packed) return null;
  const prompt = packed.keep + lengthOf(packed.prompt) / 4;
  return { prompt, whole: prompt + lengthOf(packed.sampled) / 4 };
}

const logprobsUnpacked = new Map();

// The logprobs of what call number n sampled, Float32Array; null where the engine gave none.
function logprobsOf(n) {
  if (!logprobsUnpacked.has(n)) {
    const packed = DATA.calls[n].tokens;
    logprobsUnpacked.set(n, packed && packed.logprobs !== null ? new Float32Array(bytesOf(packed.logprobs).buffer) : null);
  }
  return logprobsUnpacked.get(n);
}

const IN_HAND = 48;
const unpacked = new Map();

// The ids of call number n's prompt + sampled, Int32Array; null without ids.
function idsOf(n) {
  const waiting = [];
  for (let at = n; at >= 0 && DATA.calls[at].tokens && !unpacked.has(at); at = DATA.calls[at].tokens.base) waiting.push(at);
  while (waiting.length) {
    const at = waiting.pop();
    const packed = DATA.calls[at].tokens;
    const prompt = new Int32Array(bytesOf(packed.prompt).buffer);
    const sampled = new Int32Array(bytesOf(packed.sampled).buffer);
    const ids = new Int32Array(packed.keep + prompt.length + sampled.length);
    if (packed.keep) ids.set(unpacked.get(packed.base).subarray(0, packed.keep));
    ids.set(prompt, packed.keep);
    ids.set(sampled, packed.keep + prompt.length);
    unpacked.set(at, ids);
    const oldest = unpacked.keys().next().value;
    if (unpacked.size > IN_HAND && oldest !== at) unpacked.delete(oldest);
  }
  return unpacked.get(n) || null;
}

// The sampled spans of a call's context, [{start, end, call}] in order: its own and those of the calls it continues.
function spansOf(n) {
  const spans = [];
  for (let at = n; at !== null && sizesOf(at); at = DATA.calls[at].parent) {
    const { prompt, whole } = sizesOf(at);
    spans.push({ start: prompt, end: whole, call: at });
  }
  return spans.reverse();
}

// The messages of a call's prompt, as numbers of DATA.messages.
function messagesOf(n) {
  const chain = [];
  let at = n;
  while (at >= 0 && DATA.calls[at].messages) {
    chain.push(at);
    at = DATA.calls[at].messages.base;
  }
  let found = [];
  while (chain.length) {
    const { keep, rest } = DATA.calls[chain.pop()].messages;
    found = found.slice(0, keep).concat(rest);
  }
  return found;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

// Text of the tokens [from, to), one entry a token; a character that is spread over tokens stands with its last one.
function pieces(ids, from, to) {
  const texts = [];
  let open = [];
  for (let i = from; i < to; i++) {
    const piece = DATA.vocabulary[ids[i]];
    if (Array.isArray(piece)) {
      open = open.concat(piece);
      try {
        texts.push(decoder.decode(new Uint8Array(open)));
        open = [];
      } catch {
        texts.push(open.length < 4 ? "\u22ef" : "\u27e8" + piece.map(hex).join(" ") + "\u27e9");
        if (open.length >= 4) open = [];
      }
    } else {
      open = [];
      texts.push(piece === undefined ? " " + ids[i] : piece);
    }
  }
  return texts;
}

const hex = (byte) => byte.toString(16).padStart(2, "0");

function textOf(content) {
  if (content === null || content === undefined) return "";
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return JSON.stringify(content, null, 1);
  return content.map((part) => (typeof part.text === "string" ? part.text : JSON.stringify(part))).join("\n");
}

const functionOf = (call) => call.function || call;
