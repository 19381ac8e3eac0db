"""Stateful use on our own store: earlier responses that a request only names, and the routes that ask for one again.

A stored response is not kept as it was sent: it is composed again from the client's request and the sampled message,
under the same call id, and so has the same ids.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from polar_capture.dialects.base import HttpAnswer, Lookup, ParsedCall, StoredTurn
from polar_capture.dialects.json_body import decode_object
from polar_capture.dialects.openai_responses.faults import PREVIOUS
from polar_capture.dialects.openai_responses.items import COMPACTED, Item, as_items, kind_of_item
from polar_capture.dialects.openai_responses.output import compose, compose_summary
from polar_capture.dialects.openai_responses.request import ENCRYPTED_REASONING, Asked, understand
from polar_capture.dialects.openai_responses.response import INCOMPLETE, finished, response_id, usage_of
from polar_capture.faults import CallError, Fault, FaultKind, invalid
from polar_capture.lineage.minting import Minter

COMPACT_PATH = "/responses/compact"
_KEPT_ACROSS = ("additional_tools",)
_LONGEST_CHAIN = 10_000


def resolve(call: ParsedCall) -> Lookup[ParsedCall]:
    """Put in the conversation before `previous_response_id` and the items that are only referenced."""
    asked: Asked = call.extra
    items, history = asked.items, asked.history
    if asked.unresolved is not None:
        before = yield from history_until(asked.unresolved)
        items, history = [*before, *items], len(before)
    if any(kind_of_item(item) == "item_reference" for item in items):
        items = yield from _with_references(items)
    if items is asked.items:
        return call
    return understand(asked.body, asked.headers, asked.form == "endpoint", items, history)


def history_until(identifier: str) -> Lookup[list[Item]]:
    """All items of the conversation that ends with this response, its output included. Raises CallError."""
    turns: list[tuple[StoredTurn, dict[str, Any]]] = []
    wanted: str | None = identifier
    while wanted is not None:
        turn = yield wanted
        if turn is None or len(turns) == _LONGEST_CHAIN:
            raise previous_not_found(wanted)
        body = decode_object(turn.request)
        turns.append((turn, body))
        wanted = body.get(PREVIOUS) if isinstance(body.get(PREVIOUS), str) else None
    items: list[Item] = []
    for turn, body in reversed(turns):
        items += [item for item in as_items(body.get("input")) if item.get("type") != "compaction_trigger"]
        items = after_output(items, output_of(turn, body, items))
    return items


def after_output(items: list[Item], output: list[Item]) -> list[Item]:
    """The conversation after a response: a compaction stands for all that was said before it."""
    if any(item["type"] in COMPACTED for item in output):
        items = [i for i in items if kind_of_item(i) in _KEPT_ACROSS or i.get("role") in ("system", "developer")]
    return [*items, *output]


def output_of(turn: StoredTurn, body: Mapping[str, Any], items: list[Item]) -> list[Item]:
    """The output items of a stored turn as they were sent. `items` is its whole input, which may declare its tools."""
    asked: Asked = understand(dict(body), {}, turn.path.endswith(COMPACT_PATH), items, len(items)).extra
    minter = Minter(turn.call_id)
    if asked.form != "response" or _triggered(body):
        return [compose_summary(turn.message, minter)]
    cut, encrypted = turn.finish_reason in INCOMPLETE, ENCRYPTED_REASONING in asked.include
    return compose(turn.message, asked.book, minter, cut=cut, encrypted=encrypted, logprobs=None)


def _triggered(body: Mapping[str, Any]) -> bool:
    return any(kind_of_item(item) == "compaction_trigger" for item in as_items(body.get("input")))


def _with_references(items: list[Item]) -> Lookup[list[Item]]:
    """The items with every `item_reference` replaced by the item of ours that it names."""
    named = {item["id"]: item for item in items if "id" in item and kind_of_item(item) != "item_reference"}
    whole: list[Item] = []
    for index, item in enumerate(items):
        if kind_of_item(item) != "item_reference":
            whole.append(item)
            continue
        identifier = item.get("id")
        if not isinstance(identifier, str):
            raise invalid(f"Missing required parameter: 'input[{index}].id'.", f"input[{index}].id")
        if identifier not in named:
            turn = yield identifier
            if turn is not None:
                named |= {output["id"]: output for output in output_of(turn, decode_object(turn.request), [])}
        if identifier not in named:
            raise CallError(Fault(FaultKind.NOT_FOUND, f"Item with id '{identifier}' not found.", param="input"))
        whole.append(named[identifier])
    return whole


def previous_not_found(identifier: str) -> CallError:
    message = f"Previous response with id '{identifier}' not found."
    return CallError(Fault(FaultKind.NOT_FOUND, message, param=PREVIOUS))


def retrieve(identifier: str, query: Mapping[str, str]) -> Lookup[HttpAnswer]:
    """GET /v1/responses/{id}; its stream can't be asked for again, as at OpenAI where it was no background response."""
    turn, body = yield from _stored(identifier)
    if query.get("stream", "false") != "false":
        raise invalid("Only background responses can be streamed again: retrieve it without 'stream'.", "stream")
    return HttpAnswer(200, msgspec.json.encode((yield from _again(turn, body))))


def cancel(identifier: str) -> Lookup[HttpAnswer]:
    """POST /v1/responses/{id}/cancel: nothing runs in the background here, so there is nothing to cancel."""
    yield from _stored(identifier)
    raise invalid("Only background responses can be cancelled, and this one was none.", "response_id")


def delete(identifier: str) -> Lookup[HttpAnswer]:
    """DELETE /v1/responses/{id}: the client cannot ask for it again; the record stays."""
    yield from _stored(identifier)
    body = {"id": identifier, "object": "response", "deleted": True}
    return HttpAnswer(200, msgspec.json.encode(body), forget=identifier)


def input_items(identifier: str, query: Mapping[str, str]) -> Lookup[HttpAnswer]:
    """GET /v1/responses/{id}/input_items: the newest first unless `order=asc`; pages by `after` and `limit` (1 to
    100)."""
    turn, body = yield from _stored(identifier)
    items = yield from _input_of(body)
    told = [_identified(item, turn, index) for index, item in enumerate(items)]
    if query.get("order", "desc") != "asc":
        told.reverse()
    limit = query.get("limit", "20")
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= 100):
        raise invalid(f"Invalid 'limit': {limit} is not an integer from 1 to 100.", "limit")
    places = {item["id"]: index for index, item in enumerate(told)}
    start = 0
    if "after" in query:
        if query["after"] not in places:
            raise invalid(f"Invalid 'after': there is no item '{query['after']}'.", "after")
        start = places[query["after"]] + 1
    page = told[start : start + int(limit)]
    listed = {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": start + len(page) < len(told),
    }
    return HttpAnswer(200, msgspec.json.encode(listed))


def _stored(identifier: str) -> Lookup[tuple[StoredTurn, dict[str, Any]]]:
    turn = yield identifier
    body = None if turn is None else decode_object(turn.request)
    # As at OpenAI: what was not to be stored can be continued here, but not asked for.
    if turn is None or body is None or body.get("store") is False or not identifier.startswith("resp_"):
        raise CallError(Fault(FaultKind.NOT_FOUND, f"Response with id '{identifier}' not found."))
    return turn, body


def _input_of(body: dict[str, Any]) -> Lookup[list[Item]]:
    previous = body.get(PREVIOUS)
    history: list[Item] = []
    if isinstance(previous, str):
        history = yield from history_until(previous)
    return [*history, *as_items(body.get("input"))]


def _again(turn: StoredTurn, body: dict[str, Any]) -> Lookup[dict[str, Any]]:
    try:
        items = yield from _input_of(body)
    except CallError:  # an earlier response of the conversation is deleted: this one is told all the same
        items = as_items(body.get("input"))
    asked: Asked = understand(body, {}, turn.path.endswith(COMPACT_PATH), items, len(items)).extra
    identifier = response_id(asked, Minter(turn.call_id))
    output = output_of(turn, body, items)
    return finished(asked, identifier, turn.model, output, turn.finish_reason, usage_of(turn.usage))


def _identified(item: Item, turn: StoredTurn, index: int) -> Item:
    """An input item as it is listed: with an id, its type, and content as parts."""
    told = {"id": f"item_{turn.call_id.replace('-', '')}_{index}", **item}
    told["type"] = kind_of_item(item) or "message"
    if told["type"] == "message":
        told.setdefault("status", "completed")
        if isinstance(told.get("content"), str):
            kind = "output_text" if told.get("role") == "assistant" else "input_text"
            part: dict[str, Any] = {"type": kind, "text": told["content"]}
            told["content"] = [part | {"annotations": []} if kind == "output_text" else part]
    return told
