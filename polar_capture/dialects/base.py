"""The interface of a dialect: one provider's wire format, sans I/O. Adding a dialect is one file and one registry line.

The gateway drives a dialect like this, and never asks which one it is:

    route = dialect.match(method, path)            # what is asked of us
    call = dialect.parse(wire, route)              # ParsedCall: ChatRequest + how to answer
    call = run(dialect.resolve(call))              # earlier turns of ours that the request only names (see `Lookup`)
    completion = engine.generate(call.chat)
    reply = dialect.reply(call, completion, minter)    # mints every id; pure
    store.record(…, minted=minter.minted)
    reply.json()                                   # or: stream.open(); stream.noop()…; stream.finish(reply)

Everything raises `faults.CallError` for requests that are wrong; nothing else may escape `parse`.
"""

import abc
import enum
import re
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

import msgspec

from polar_capture.chat import ChatRequest, Completion, Message, Usage
from polar_capture.faults import CallError, Fault, FaultKind
from polar_capture.lineage.minting import Minter


class Operation(enum.StrEnum):
    """What a path asks for."""

    GENERATE = "generate"
    COUNT_TOKENS = "count_tokens"
    LIST_MODELS = "list_models"
    GET_MODEL = "get_model"
    LOCAL = "local"  # answered by the dialect from our own store or from nothing: `Dialect.local`


class Route(msgspec.Struct, frozen=True):
    """One recognised request line. `params` holds the named groups of the path (model, response id, …)."""

    operation: Operation
    name: str
    params: dict[str, str] = {}


class WireRequest(msgspec.Struct, frozen=True):
    """A client's request as it came: header names in lower case, body decoded from its content-encoding.

    `path` has no query; `query` keeps the last value of each key. `host` is the provider's host name that the client
    believes to talk to ("" on the base-URL gateway).
    """

    method: str
    path: str
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    body: bytes = b""
    host: str = ""


class Hints(msgspec.Struct, frozen=True):
    """What a harness itself tells of a call's place: read from headers and body, never trusted over our own ids.

    `session` is the harness's own session or conversation id; `agent` the lineage (`main`, `sub:<id>`, `aux:<what>`);
    `kind` one of turn, side, nested; `user_turn` an id that changes with each user turn; `attempt` the retry count;
    `parent` an id of ours that names the parent turn (message id, response id); `compaction` marks a compaction call.
    """

    session: str | None = None
    agent: str | None = None
    kind: str | None = None
    user_turn: str | None = None
    attempt: int | None = None
    parent: str | None = None
    compaction: bool = False
    harness: str | None = None
    harness_version: str | None = None


class ParsedCall(msgspec.Struct):
    """A generation request, understood.

    `unmapped` lists by JSON path (`$.context_management`, `$.tools[3].max_uses`) what could not be carried over;
    `dropped` holds what a named rule took out of the prompt ({"rule": …, "path": …, "text": …}). `extra` belongs to the
    dialect alone (what it needs to shape the answer): shared code never looks inside.
    """

    chat: ChatRequest
    stream: bool
    model_requested: str | None = None
    hints: Hints = Hints()
    unmapped: list[str] = []
    dropped: list[dict[str, Any]] = []
    extra: Any = None


class Event(msgspec.Struct, frozen=True):
    """One event of a fabricated stream. `data` is JSON text as bytes; `name` the SSE event line, where the dialect
    has one."""

    data: bytes
    name: str | None = None


class HttpAnswer(msgspec.Struct, frozen=True):
    """A whole HTTP answer: errors, model lists, counts."""

    status: int
    body: bytes
    headers: Mapping[str, str] = msgspec.field(default_factory=lambda: {"content-type": "application/json"})
    forget: str | None = None
    """An id of ours that the client has deleted: from now on `Lookup` answers None for it. The record itself stays."""


class StoredTurn(msgspec.Struct, frozen=True):
    """One recorded call of ours, as much of it as is needed to say it again: same call id, so same minted ids.

    `request` is the client's body as it came, `path` its path, `message` the sampled message of choice 0,
    `finish_reason` as recorded ("stop" where the row has none).
    """

    call_id: str
    path: str
    request: bytes
    message: Message
    finish_reason: str = "stop"
    usage: Usage = msgspec.field(default_factory=Usage)
    model: str = ""


T = TypeVar("T")

Lookup = Generator[str, StoredTurn | None, T]
"""A computation that needs stored turns, sans I/O: it yields an id of ours (any that we minted) and is sent the turn
that it belongs to, or None for an id that is unknown, deleted, or of a call without an answer. It may raise
CallError.

    async def run(steps):
        found = None
        while True:
            try:
                wanted = steps.send(found)
            except StopIteration as done:
                return done.value
            found = await stored_turn(wanted)
"""


class Reply(abc.ABC):
    """One composed answer. Composing mints all its ids, so it comes before recording; both forms are pure."""

    @abc.abstractmethod
    def json(self) -> bytes:
        """The body of a client that did not ask for a stream."""

    def headers(self) -> Mapping[str, str]:
        """Response headers of the answer (request-id and the like); may be {}."""
        return {}


def refuse_aborted(completion: Completion) -> None:
    """Raise CallError for a generation that the engine cut off: it is no answer, and clients ask again."""
    if any(choice.finish_reason == "abort" for choice in completion.choices):
        raise CallError(Fault(FaultKind.OVERLOADED, "The generation was cut off by the engine. Please retry."))


class Stream(abc.ABC):
    """The fabricated stream of one call, in order: `open` (twice at most), `noop` any number of times, then `finish`
    or `fail`.

    Whatever has been opened early is not sent again by `finish`. Bytes returned go to the wire as they are.
    """

    content_type = "text/event-stream"

    def headers(self) -> Mapping[str, str]:
        """Response headers of a stream that opens before its answer is known; may be {}."""
        return {}

    @abc.abstractmethod
    def open(self, prompt_tokens: int | None) -> bytes:
        """What may be sent before the answer is known. `prompt_tokens` is None while the size of the prompt is unknown:
        then only what claims no usage (Messages: a ping). Called again once the size is known. May be b""."""

    @abc.abstractmethod
    def noop(self) -> bytes:
        """A *typed* event that changes nothing for any client, sent in every silence (facts: 10 s)."""

    @abc.abstractmethod
    def finish(self, reply: Reply) -> bytes:
        """All that is left of the stream, its terminal event included. Called only after the call is durable."""

    @abc.abstractmethod
    def fail(self, fault: Fault) -> bytes:
        """The dialect's error event and the clean end of the stream."""


class Send(msgspec.Struct, frozen=True):
    """Send one text frame (JSON as UTF-8)."""

    data: bytes


class Generate(msgspec.Struct, frozen=True):
    """Run this call as if it had come over HTTP: resolve, generate, record, and tell the socket by `start`, then
    `finish` or `fail`. `wire` is the request that stands for it; its body is the client's frame."""

    call: ParsedCall
    wire: WireRequest


Action = Send | Generate


class Socket(abc.ABC):
    """One client's WebSocket, sans I/O: frames in, actions out, to be carried out in order.

    At most one Generate is open at a time: what the client asks for meanwhile waits inside and comes out of `finish` or
    `fail`. While one is open the gateway calls `start` first, `noop` in every silence, and one of the last two.
    """

    @abc.abstractmethod
    def receive(self, frame: str | bytes) -> list[Action]:
        """One frame from the client. Bad frames are answered with an error event; nothing is raised."""

    @abc.abstractmethod
    def start(self, call: ParsedCall, minter: Minter, model: str) -> list[Action]:
        """The Generate has become a call (resolved, given its id). Nothing may have been sent for it before."""

    @abc.abstractmethod
    def noop(self) -> list[Action]:
        """Opens the answer the first time, then a typed event that changes nothing."""

    @abc.abstractmethod
    def finish(self, reply: Reply) -> list[Action]:
        """The whole rest of the answer. Called only after the call is durable."""

    @abc.abstractmethod
    def fail(self, fault: Fault) -> list[Action]:
        """The fault as an event; the connection stays usable. May come without `start`, of a call that never began."""


class ModelCard(msgspec.Struct, frozen=True):
    """A model that we serve: its name, its window in tokens (None: unknown), creation time in epoch seconds."""

    id: str
    window: int | None = None
    created: int = 0


class Dialect(abc.ABC):
    """One provider's wire format. Instances are stateless."""

    name: str
    """The dialect's name in `calls.dialect`."""

    hosts: tuple[str, ...] = ()
    """Provider host names whose TLS is terminated for this dialect; a leading dot takes in all subdomains."""

    routes: tuple[tuple[str, re.Pattern[str], Operation, str], ...] = ()
    """(method, full-match path pattern, operation, route name). Patterns also match without a version prefix where
    clients send that, and must not match other dialects' paths."""

    def match(self, method: str, path: str) -> Route | None:
        """The route of a request line, or None. A known path under another method is found by `allowed`."""
        for verb, pattern, operation, name in self.routes:
            found = pattern.fullmatch(path)
            if verb == method and found:
                return Route(operation, name, {k: v for k, v in found.groupdict().items() if v is not None})
        return None

    def allowed(self, path: str) -> list[str]:
        """The methods that this path knows; [] for a path that is not ours."""
        return sorted({verb for verb, pattern, _, _ in self.routes if pattern.fullmatch(path)})

    @abc.abstractmethod
    def parse(self, wire: WireRequest, route: Route) -> ParsedCall:
        """Understand a GENERATE or COUNT_TOKENS request. Raises CallError."""

    def resolve(self, call: ParsedCall) -> Lookup[ParsedCall]:
        """The call with everything that it names only by ids of ours put in. Always run after `parse`, before anything
        else uses the call. Dialects without server-side state need nothing."""
        yield from ()
        return call

    def local(self, wire: WireRequest, route: Route) -> Lookup[HttpAnswer]:
        """The answer to a LOCAL route, from our own store or from nothing. Raises CallError."""
        yield from ()
        raise CallError(Fault(FaultKind.NOT_FOUND, f"{route.name} is not served here"))

    def socket(self, wire: WireRequest, mint: Callable[[], Minter]) -> Socket | None:
        """The protocol of a WebSocket upgrade on this path, or None where the dialect has none (answer 404, or 426
        where it is switched off). `mint` gives a Minter of a fresh call id, for answers that are no calls."""
        return None

    @abc.abstractmethod
    def reply(self, call: ParsedCall, completion: Completion, minter: Minter) -> Reply:
        """Compose the answer. Pure; mints every id that the client will see. Raises CallError where the completion
        cannot be said in this dialect (an aborted generation, for instance)."""

    @abc.abstractmethod
    def stream(self, call: ParsedCall, minter: Minter, model: str) -> Stream:
        """A fresh stream for this call. Ids that `open` shows early come from the same minter as the reply's, and the
        reply repeats them: mint ids that both need by asking `minter` in the same order, or keep them in
        `call.extra`."""

    @abc.abstractmethod
    def error(self, fault: Fault, wire: WireRequest | None = None) -> HttpAnswer:
        """The fault as this provider says it: status, body, headers (retry-after among them)."""

    @abc.abstractmethod
    def count(self, call: ParsedCall, prompt_tokens: int) -> HttpAnswer:
        """The answer to COUNT_TOKENS."""

    @abc.abstractmethod
    def models(self, cards: list[ModelCard], wire: WireRequest, route: Route) -> HttpAnswer:
        """LIST_MODELS, or GET_MODEL for `route.params["model"]` (an unknown name is answered as served by the one
        model)."""
