"""The generateContent dialect: its paths and hosts, and where its parts are."""

import re

import msgspec

from polar_capture.chat import Completion
from polar_capture.dialects.base import (
    Dialect,
    HttpAnswer,
    Lookup,
    ModelCard,
    Operation,
    ParsedCall,
    Reply,
    Route,
    Stream,
    WireRequest,
)
from polar_capture.dialects.google import request
from polar_capture.dialects.google.code_assist import onboarding
from polar_capture.dialects.google.errors import error_answer
from polar_capture.dialects.google.reply import GoogleReply
from polar_capture.dialects.google.stream import stream_of
from polar_capture.faults import Fault
from polar_capture.lineage.minting import Minter

_VERSION = r"(?:/v\d+(?:alpha|beta)?\d*)?"
# Vertex AI puts the same models under a project.
_NAME = r"(?:/projects/[^/]+/locations/[^/]+)?(?:/publishers/google)?/(?:models|tunedModels)/(?P<model>[^/:]+)"
_INTERNAL = r"/v1internal"


def _verb(prefix: str, verb: str) -> re.Pattern[str]:
    return re.compile(f"{prefix}(?::|%3A){verb}")


class Google(Dialect):
    """Google generateContent: the Gemini API, Vertex AI's paths, and Code Assist (Gemini CLI's login)."""

    name = "google"
    hosts = ("generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "aiplatform.googleapis.com")
    routes = (
        ("POST", _verb(_VERSION + _NAME, "generateContent"), Operation.GENERATE, "generate_content"),
        ("POST", _verb(_VERSION + _NAME, "streamGenerateContent"), Operation.GENERATE, request.STREAM),
        ("POST", _verb(_VERSION + _NAME, "countTokens"), Operation.COUNT_TOKENS, "count_tokens"),
        ("GET", re.compile(_VERSION + r"(?:/publishers/google)?/models/?"), Operation.LIST_MODELS, "models"),
        ("GET", re.compile(_VERSION + _NAME), Operation.GET_MODEL, "model"),
        ("POST", _verb(_INTERNAL, "generateContent"), Operation.GENERATE, request.CODE_ASSIST + "generate_content"),
        ("POST", _verb(_INTERNAL, "streamGenerateContent"), Operation.GENERATE, request.CODE_ASSIST + request.STREAM),
        ("POST", _verb(_INTERNAL, "countTokens"), Operation.COUNT_TOKENS, request.CODE_ASSIST + "count_tokens"),
        ("POST", _verb(_INTERNAL, "(?P<step>loadCodeAssist|onboardUser)"), Operation.LOCAL, "code_assist_onboarding"),
    )

    def parse(self, wire: WireRequest, route: Route) -> ParsedCall:
        return request.parse(wire, route)

    def local(self, wire: WireRequest, route: Route) -> Lookup[HttpAnswer]:
        yield from ()
        return onboarding(route.params["step"])

    def reply(self, call: ParsedCall, completion: Completion, minter: Minter) -> Reply:
        return GoogleReply(call, completion, minter)

    def stream(self, call: ParsedCall, minter: Minter, model: str) -> Stream:
        return stream_of(call)

    def error(self, fault: Fault, wire: WireRequest | None = None) -> HttpAnswer:
        as_list = wire is not None and "streamGenerateContent" in wire.path and wire.query.get("alt") != "sse"
        return error_answer(fault, as_list)

    def count(self, call: ParsedCall, prompt_tokens: int) -> HttpAnswer:
        body: dict[str, object] = {"totalTokens": prompt_tokens}
        if not call.extra.wrapped:
            body["promptTokensDetails"] = [{"modality": "TEXT", "tokenCount": prompt_tokens}]
        return HttpAnswer(200, msgspec.json.encode(body))

    def models(self, cards: list[ModelCard], wire: WireRequest, route: Route) -> HttpAnswer:
        asked = route.params.get("model")
        if asked is None:
            body: dict[str, object] = {"models": [_model_object(card, card.id) for card in cards]}
        else:
            named = [card for card in cards if card.id == asked] or cards or [ModelCard(asked)]
            body = _model_object(named[0], asked)
        return HttpAnswer(200, msgspec.json.encode(body))


def _model_object(card: ModelCard, name: str) -> dict[str, object]:
    model: dict[str, object] = {
        "name": f"models/{name}",
        "baseModelId": name,
        "version": "001",
        "displayName": name,
        "description": "Served by polar-capture.",
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }
    if card.window is not None:
        # Prompt and answer share the engine's window.
        model |= {"inputTokenLimit": card.window, "outputTokenLimit": card.window}
    return model
