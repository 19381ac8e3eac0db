"""The OpenAI Responses dialect: HTTP JSON, SSE, WebSocket, stateful use, compaction; Codex's model catalog."""

import re
from collections.abc import Callable

import msgspec

from polar_capture.chat import Completion
from polar_capture.dialects.base import (
    Dialect,
    HttpAnswer,
    Lookup,
    ModelCard,
    Operation,
    ParsedCall,
    Route,
    Socket,
    Stream,
    WireRequest,
    refuse_aborted,
)
from polar_capture.dialects.codex_catalog import CodexCatalog
from polar_capture.dialects.json_body import decode_object
from polar_capture.dialects.openai_responses import logprobs, stored
from polar_capture.dialects.openai_responses.events import ResponseEvents, ResponseStream
from polar_capture.dialects.openai_responses.faults import http_error
from polar_capture.dialects.openai_responses.output import compose, compose_summary
from polar_capture.dialects.openai_responses.request import ENCRYPTED_REASONING, TEXT_LOGPROBS, Asked, understand
from polar_capture.dialects.openai_responses.response import (
    INCOMPLETE,
    ResponseReply,
    compacted,
    finished,
    response_id,
    shell,
    usage_of,
)
from polar_capture.dialects.openai_responses.socket import ResponsesSocket
from polar_capture.faults import Fault, FaultKind, invalid
from polar_capture.lineage.minting import Minter

_ROOT = r"(?:/v1|/backend-api/codex|/openai/v1)?/responses"
_ONE = _ROOT + r"/(?P<response_id>[^/]+)"


class OpenAIResponses(Dialect):
    """https://developers.openai.com/api/reference/resources/responses, and the same paths of ChatGPT's Codex."""

    name = "openai_responses"
    hosts = ("api.openai.com", "chatgpt.com")
    routes = (
        ("POST", re.compile(_ROOT), Operation.GENERATE, "create"),
        ("POST", re.compile(_ROOT + "/compact"), Operation.GENERATE, "compact"),
        ("POST", re.compile(_ROOT + "/input_tokens"), Operation.COUNT_TOKENS, "input_tokens"),
        ("GET", re.compile(_ONE), Operation.LOCAL, "retrieve"),
        ("DELETE", re.compile(_ONE), Operation.LOCAL, "delete"),
        ("GET", re.compile(_ONE + "/input_items"), Operation.LOCAL, "input_items"),
        ("POST", re.compile(_ONE + "/cancel"), Operation.LOCAL, "cancel"),
        ("GET", re.compile("/backend-api/codex/models"), Operation.LIST_MODELS, "codex_models"),
    )

    def __init__(self, catalog: CodexCatalog | None = None) -> None:
        self._catalog = catalog or CodexCatalog()

    def parse(self, wire: WireRequest, route: Route) -> ParsedCall:
        call = understand(decode_object(wire.body), wire.headers, endpoint=route.name == "compact")
        asked: Asked = call.extra
        if not (asked.items or asked.unresolved or call.chat.messages):
            raise invalid("Missing required parameter: 'input'.", "input")
        if asked.form == "endpoint":
            call.stream = False
        return call

    def resolve(self, call: ParsedCall) -> Lookup[ParsedCall]:
        """Looks up the responses and items that the request only names. Raises CallError for those not found."""
        resolved = yield from stored.resolve(call)
        resolved.stream = call.stream
        return resolved

    def local(self, wire: WireRequest, route: Route) -> Lookup[HttpAnswer]:
        identifier = route.params["response_id"]
        if route.name == "retrieve":
            return (yield from stored.retrieve(identifier, wire.query))
        if route.name == "delete":
            return (yield from stored.delete(identifier))
        if route.name == "input_items":
            return (yield from stored.input_items(identifier, wire.query))
        return (yield from stored.cancel(identifier))

    def socket(self, wire: WireRequest, mint: Callable[[], Minter]) -> Socket | None:
        return ResponsesSocket(wire, mint) if re.fullmatch(_ROOT, wire.path) else None

    def reply(self, call: ParsedCall, completion: Completion, minter: Minter) -> ResponseReply:
        asked: Asked = call.extra
        choice = completion.choices[0]
        refuse_aborted(completion)
        identifier = response_id(asked, minter)
        usage = usage_of(completion.usage, completion)
        request_id = minter.id("req_")
        if asked.form == "endpoint":
            summary = compose_summary(choice.message, minter)
            return ResponseReply(compacted(asked, identifier, [summary], usage), request_id)
        if asked.form == "trigger":
            output = [compose_summary(choice.message, minter)]
        else:
            shown = None
            if TEXT_LOGPROBS in asked.include and isinstance(choice.message.content, str):
                shown = logprobs.of_text(choice.logprobs_content, choice.message.content)
            output = compose(
                choice.message,
                asked.book,
                minter,
                cut=choice.finish_reason in INCOMPLETE,
                # A client that keeps its own state can only echo a thought that is sealed: Qwen Code doesn't ask for
                # that, and would give an unsealed one back as words of the answer.
                encrypted=ENCRYPTED_REASONING in asked.include or asked.body.get("store") is False,
                logprobs=shown,
            )
        response = finished(asked, identifier, completion.model, output, choice.finish_reason, usage)
        return ResponseReply(response, request_id)

    def stream(self, call: ParsedCall, minter: Minter, model: str) -> Stream:
        asked: Asked = call.extra
        return ResponseStream(ResponseEvents(shell(asked, response_id(asked, minter), model)))

    def error(self, fault: Fault, wire: WireRequest | None = None) -> HttpAnswer:
        return http_error(fault)

    def count(self, call: ParsedCall, prompt_tokens: int) -> HttpAnswer:
        body = {"object": "response.input_tokens", "input_tokens": prompt_tokens}
        return HttpAnswer(200, msgspec.json.encode(body))

    def models(self, cards: list[ModelCard], wire: WireRequest, route: Route) -> HttpAnswer:
        body = self._catalog.body(cards)
        if body is None:
            return http_error(Fault(FaultKind.NOT_FOUND, "No model catalog is served here; the bundled one is right."))
        return HttpAnswer(200, body)
