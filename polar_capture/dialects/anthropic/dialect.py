"""The Messages dialect: its paths and hosts, and where its parts are."""

import datetime
import re
from typing import Any

import msgspec

from polar_capture.chat import Completion
from polar_capture.dialects.anthropic import request
from polar_capture.dialects.anthropic.errors import error_answer
from polar_capture.dialects.anthropic.reply import MessagesReply
from polar_capture.dialects.anthropic.stream import MessagesStream
from polar_capture.dialects.base import (
    Dialect,
    HttpAnswer,
    ModelCard,
    Operation,
    ParsedCall,
    Reply,
    Route,
    Stream,
    WireRequest,
)
from polar_capture.faults import Fault
from polar_capture.lineage.minting import Minter

# DeepSeek, Azure and others serve Messages below /anthropic; some clients put the version into their base URL.
_BASE = r"(?:/anthropic)?(?:/v1)?"
_MESSAGES = re.compile(_BASE + "/messages/?")
_COUNT = re.compile(_BASE + "/messages/count_tokens/?")
_MODELS = re.compile(r"(?:/anthropic)?/v1/models/?")
_MODEL = re.compile(r"(?:/anthropic)?/v1/models/(?P<model>.+)")


class Anthropic(Dialect):
    """Anthropic Messages."""

    name = "anthropic"
    hosts = ("api.anthropic.com",)
    routes = (
        ("POST", _MESSAGES, Operation.GENERATE, "messages"),
        ("POST", _COUNT, Operation.COUNT_TOKENS, "count_tokens"),
        ("GET", _MODELS, Operation.LIST_MODELS, "models"),
        ("GET", _MODEL, Operation.GET_MODEL, "model"),
    )

    def parse(self, wire: WireRequest, route: Route) -> ParsedCall:
        return request.parse(wire, counting=route.operation is Operation.COUNT_TOKENS)

    def reply(self, call: ParsedCall, completion: Completion, minter: Minter) -> Reply:
        return MessagesReply(call, completion, minter)

    def stream(self, call: ParsedCall, minter: Minter, model: str) -> Stream:
        return MessagesStream(call, minter, model)

    def error(self, fault: Fault, wire: WireRequest | None = None) -> HttpAnswer:
        return error_answer(fault, self.allowed(wire.path) if wire else [])

    def count(self, call: ParsedCall, prompt_tokens: int) -> HttpAnswer:
        return HttpAnswer(200, msgspec.json.encode({"input_tokens": prompt_tokens}))

    def models(self, cards: list[ModelCard], wire: WireRequest, route: Route) -> HttpAnswer:
        asked = route.params.get("model")
        if asked is not None:
            named = [card for card in cards if card.id == asked] or cards or [ModelCard(asked)]
            return HttpAnswer(200, msgspec.json.encode(_model_object(named[0], asked)))
        listed = [_model_object(card, card.id) for card in cards]
        first, last = (cards[0].id, cards[-1].id) if cards else (None, None)
        body = {"data": listed, "has_more": False, "first_id": first, "last_id": last}
        return HttpAnswer(200, msgspec.json.encode(body))


def _model_object(card: ModelCard, name: str) -> dict[str, Any]:
    created = datetime.datetime.fromtimestamp(card.created, datetime.UTC)
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": created.isoformat().replace("+00:00", "Z"),
        "lifecycle": "active",
        "max_input_tokens": card.window,
    }
