"""The output items of one sampled message: reasoning, text, calls, in this order; or one compaction item."""

from typing import Any

import msgspec

from polar_capture.chat import Message, ToolCall
from polar_capture.chat_normal import text_of
from polar_capture.dialects.openai_responses.items import Item
from polar_capture.dialects.openai_responses.native_tools import NATIVE
from polar_capture.dialects.openai_responses.sealed import seal
from polar_capture.dialects.openai_responses.tools import Declared, ToolBook
from polar_capture.faults import CallError, Fault, FaultKind
from polar_capture.lineage.minting import Minter


def compose(
    message: Message,
    book: ToolBook,
    minter: Minter,
    *,
    cut: bool,
    encrypted: bool,
    logprobs: list[dict[str, Any]] | None,
) -> list[Item]:
    """The items of an ordinary answer. `cut` marks its last item incomplete; `encrypted` adds our token to the
    reasoning."""
    items: list[Item] = []
    content = text_of(message.content)
    if message.reasoning:
        items.append(_reasoning(message.reasoning, minter, encrypted))
    # Blanks between a thought and a call are the template's, no text of the answer; an empty answer is still an answer.
    if content.strip() or not (items or message.tool_calls):
        items.append(_message(content, minter, logprobs))
    items += [_call(call, book, minter) for call in message.tool_calls]
    if cut and "status" in items[-1] and items[-1]["type"] != "apply_patch_call":
        items[-1]["status"] = "incomplete"
    return items


def compose_summary(message: Message, minter: Minter) -> Item:
    """The compaction item. Raises CallError where the model has written nothing at all."""
    summary = text_of(message.content).strip() or (message.reasoning or "").strip()
    if not summary:
        raise CallError(Fault(FaultKind.UPSTREAM, "compaction: the model returned an empty summary; try again"))
    token = minter.opaque("compaction-0")
    return {"id": minter.id("cmp_"), "type": "compaction", "encrypted_content": seal(token, summary)}


def _reasoning(thought: str, minter: Minter, encrypted: bool) -> Item:
    """The thought goes into the summary: that is what OpenCode and Qwen Code echo, Codex and Pi echo either."""
    item = {"id": minter.id("rs_"), "type": "reasoning", "summary": [{"type": "summary_text", "text": thought}]}
    return item | {"encrypted_content": minter.opaque("reasoning-0")} if encrypted else item


def _message(content: str, minter: Minter, logprobs: list[dict[str, Any]] | None) -> Item:
    part = {"type": "output_text", "annotations": [], "logprobs": logprobs or [], "text": content}
    return {"id": minter.id("msg_"), "type": "message", "status": "completed", "content": [part], "role": "assistant"}


def _call(call: ToolCall, book: ToolBook, minter: Minter) -> Item:
    meant = book.recognise(call.name)
    call_id = minter.id("call_")
    if meant.kind == "native":
        native = NATIVE[meant.name]
        said = _arguments(call.arguments)
        fields = None if said is None else native.read(said)
        if fields is not None:
            identifier = minter.id(native.id_prefix)
            return {"id": identifier, "type": native.call_type, "status": "completed", "call_id": call_id, **fields}
        meant = Declared("function", call.name)
    item: Item = {"type": "function_call", "status": "completed", "call_id": call_id, "name": meant.name}
    if meant.kind == "custom":
        item |= {"id": minter.id("ctc_"), "type": "custom_tool_call", "input": free_text(call.arguments)}
    else:
        item |= {"id": minter.id("fc_"), "arguments": call.arguments}
    if meant.namespace is not None:
        item["namespace"] = meant.namespace
    return item


def _arguments(arguments: str) -> dict[str, Any] | None:
    try:
        said = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def free_text(arguments: str) -> str:
    """The free text of a custom tool's call. Models that miss the one property `input` still get through: another only
    string property, a bare JSON string, or the arguments as they are."""
    try:
        said = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return arguments
    if isinstance(said, dict):
        if isinstance(said.get("input"), str):
            return said["input"]
        if len(said) == 1:
            (said,) = said.values()
    return said if isinstance(said, str) else arguments
