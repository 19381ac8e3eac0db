"""Captured calls inside mitmweb: content views, a comment and a marker on each flow, and a bound on what is kept.

Views: `polar-request` and `polar-answer` (chosen by themselves), `polar-tokens`, `polar-vllm`. Filter a session with
`~comment SESSION`, what is not trainable with `~comment "not trainable"`.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mitmproxy import contentviews, ctx, exceptions, hooks, http

from polar_capture import tokenizers
from polar_capture.call import Call
from polar_capture.dialects import registry
from polar_capture.dialects.base import Operation, WireRequest
from polar_capture.egress import CONTROL_HOST
from polar_capture.store.records import CallRecord
from polar_capture.views.answers import answer_text, error_line
from polar_capture.views.exchange import exchange_text
from polar_capture.views.frames import client_frame_text, ended_answer, server_frame_text
from polar_capture.views.requests import request_text
from polar_capture.views.tokens import PROMPT_TAIL, heading, token_table

if TYPE_CHECKING:
    from polar_capture.runtime import Runtime

log = logging.getLogger("polar_capture")

NO_END = "(see the frame that ends the answer)"
NOT_CAPTURED = "No captured call belongs to this flow: it was no model call, was refused, or is no longer kept."
TRAINABLE, UNTRAINABLE, FAILED = ":green_circle:", ":yellow_circle:", ":red_circle:"
_KNOWN_PIECES = 200_000
_RETRY_SECONDS = 30.0
_LINES = 5000
"""Lines of a content view that mitmweb shows at once: a table of tokens has one for each."""
_CONTROL_GOES = 0.5
"""Seconds after which a flow of the control host is no longer shown."""


class Viewing:
    """Keeps what people look at, beside the flows that mitmproxy keeps. `runtime` gives the running proxy or None."""

    def __init__(self, runtime: Callable[[], "Runtime | None"]) -> None:
        self._runtime = runtime
        self._live: dict[str, http.HTTPFlow] = {}
        self._calls: OrderedDict[str, list[list[CallRecord]]] = OrderedDict()
        self._control: list[http.HTTPFlow] = []
        self._pieces: dict[int, bytes] = {}
        self._tokenizer: tokenizers.Pieces | None = None
        self._not_before = 0.0
        self._fetching: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()

    # --- options and life cycle --------------------------------------------------------------------------------------

    def load(self, loader) -> None:
        loader.add_option(
            "polar_keep_flows",
            int,
            500,
            "Finished flows, and messages of each WebSocket, that stay in memory for viewing; older ones go.",
        )
        for view in (RequestView(), AnswerView(), TokensView(self), ExchangeView(self)):
            contentviews.add(view)

    def configure(self, updated: set[str]) -> None:
        if "polar_keep_flows" in updated and ctx.options.polar_keep_flows < 1:
            raise exceptions.OptionsError(f"polar_keep_flows={ctx.options.polar_keep_flows}: keep at least 1")

    def watch(self, runtime: "Runtime") -> None:
        """Begin, once the proxy runs; without a view (mitmdump) only WebSocket messages need a bound."""
        if self._view() is None:
            return
        runtime.gateway.observers.append(self.recorded)
        ctx.options.update(store_streamed_bodies=True)
        if ctx.options.content_view_lines_cutoff == ctx.options.default("content_view_lines_cutoff"):
            ctx.options.update(content_view_lines_cutoff=_LINES)
        columns = getattr(ctx.options, "web_columns", None)
        if columns is not None and "comment" not in columns:
            ctx.options.update(web_columns=[*columns, "comment"])

    # --- what is captured --------------------------------------------------------------------------------------------

    def request(self, flow: http.HTTPFlow) -> None:
        if "polar_url" in flow.metadata:
            self._live[flow.id] = flow

    def recorded(self, call: Call, rows: list[CallRecord]) -> None:
        """A call of a flow has been recorded."""
        flow = self._live.get(call.origin.flow or "")
        if flow is None:
            return
        kept = [_for_the_eye(row) for row in rows]
        calls = self._calls.setdefault(flow.id, [])
        calls.append(kept)
        del calls[: -ctx.options.polar_keep_flows]
        first = kept[0]
        flow.comment = heading(first)
        flow.marked = FAILED if first.status != "ok" else TRAINABLE if first.trainable else UNTRAINABLE
        flow.metadata |= {
            "polar_session": first.session_id,
            "polar_call": first.id,
            "polar_turn": first.seq,
            "polar_verdict": "trainable" if first.trainable else str(first.reason),
            "polar_tokens": f"{first.prompt_tokens or 0}+{first.completion_tokens or 0}",
        }
        fetch = asyncio.create_task(self._fetched(kept, flow))
        self._fetching.add(fetch)
        fetch.add_done_callback(self._fetching.discard)

    def response(self, flow: http.HTTPFlow) -> None:
        if flow.websocket is None:
            self._live.pop(flow.id, None)
            self._tell_refusal(flow)
            if flow.request.pretty_host == CONTROL_HOST:
                # It goes once it is no longer live: mitmproxy cuts the answer of a flow that is removed before.
                self._control.append(flow)
                asyncio.get_running_loop().call_later(_CONTROL_GOES, self._trim)
            self._trim()

    def error(self, flow: http.HTTPFlow) -> None:
        self._live.pop(flow.id, None)
        self._trim()

    def websocket_message(self, flow: http.HTTPFlow) -> None:
        if flow.websocket is not None:
            del flow.websocket.messages[: -ctx.options.polar_keep_flows]

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        self._live.pop(flow.id, None)
        self._trim()

    def _tell_refusal(self, flow: http.HTTPFlow) -> None:
        """Say why a model call was answered with an error and has no row."""
        response = flow.response
        if response is None or response.status_code < 400 or "polar_url" not in flow.metadata or flow.comment:
            return
        request = flow.request
        found = registry.find(request.method, request.path.partition("?")[0], request.pretty_host, {})
        if found is not None and found[1].operation is Operation.GENERATE:
            said = error_line(response.get_content(strict=False) or b"")
            flow.comment = f"refused: {response.status_code}" + (f" · {said}" if said else "")
            flow.marked = FAILED

    # --- what is looked at -------------------------------------------------------------------------------------------

    def calls_of(self, metadata: contentviews.Metadata) -> list[list[CallRecord]]:
        """The rows of each call of what is looked at, in order: all of a flow, or of a WebSocket's frame the call whose
        answer it ends. [] where it has none, or they are no longer kept."""
        calls = self._calls.get(metadata.flow.id, []) if metadata.flow is not None else []
        frame = metadata.websocket_message
        if frame is None:
            return calls
        answer = None if frame.from_client else ended_answer(frame.content)
        return [rows for rows in calls if answer in rows[0].minted]

    def pieces(self) -> dict[int, bytes] | None:
        """The texts of tokens, as far as they have been fetched."""
        return self._pieces or None

    async def _fetched(self, rows: list[CallRecord], flow: http.HTTPFlow) -> None:
        async with self._one_at_a_time:  # the engine has better things to do than to spell
            await self._fetch(rows, flow)

    async def _fetch(self, rows: list[CallRecord], flow: http.HTTPFlow) -> None:
        """Get the texts of a call's tokens, in a thread, behind the answer; the engine is asked once for each id."""
        runtime, now = self._runtime(), asyncio.get_running_loop().time()
        if runtime is None or now < self._not_before:
            return
        ids = {
            int(token)
            for row in rows
            for ids in (row.prompt_ids, row.completion_ids)
            if ids is not None
            for token in ids
        }
        unknown = ids - self._pieces.keys()
        if not unknown:
            return
        config = runtime.config
        engines = [(url, runtime.engine.model) for url in config.upstreams]
        try:
            if self._tokenizer is None:
                self._tokenizer, note = await asyncio.to_thread(tokenizers.find, config.tokenizer, engines)
                if self._tokenizer is None:
                    raise tokenizers.TokenizerError(note)
            found = await asyncio.to_thread(self._tokenizer.of, unknown)
        except tokenizers.TokenizerError as error:
            self._not_before = now + _RETRY_SECONDS
            log.info("%s", error)
            return
        if len(self._pieces) > _KNOWN_PIECES:
            self._pieces.clear()
        self._pieces |= found
        ctx.master.addons.trigger(hooks.UpdateHook([flow]))

    # --- the bound ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _view():
        return ctx.master.addons.get("view")

    def _trim(self) -> None:
        keep = ctx.options.polar_keep_flows
        while len(self._calls) > keep:
            self._calls.popitem(last=False)
        view = self._view()
        if view is None:
            return
        # `top` asks each few seconds, with the control token: neither is for looking at, and calls would go for it.
        view.remove([flow for flow in self._control if not flow.live])
        self._control = [flow for flow in self._control if flow.live]
        if view.store_count() > keep:
            ended = [flow for flow in list(view._store.values()) if not flow.live]
            view.remove(ended[: view.store_count() - keep])


def _for_the_eye(row: CallRecord) -> CallRecord:
    """The row without what no view shows: the client's body and all but the end of the prompt."""
    shown = CallRecord(**{name: getattr(row, name) for name in row.__struct_fields__})
    shown.request = None
    if shown.prompt_ids is not None:
        shown.prompt_ids = [int(token) for token in shown.prompt_ids[-PROMPT_TAIL:]]
    return shown


# --- content views ---------------------------------------------------------------------------------------------------


class RequestView(contentviews.Contentview):
    """A model call as its dialect reads it."""

    name = "polar-request"

    def prettify(self, data: bytes, metadata: contentviews.Metadata) -> str:
        wire = _wire(data, metadata)
        frame = metadata.websocket_message is not None
        text = (client_frame_text(wire) if frame else request_text(wire)) if wire is not None else None
        if text is None:
            raise ValueError("this is no request of a dialect that polar_capture speaks")
        return text

    def render_priority(self, data: bytes, metadata: contentviews.Metadata) -> float:
        captured = metadata.flow is not None and "polar_url" in metadata.flow.metadata
        return 3 if captured and data and _wire(data, metadata) is not None else -1


class AnswerView(contentviews.Contentview):
    """A provider-shaped answer with its deltas joined."""

    name = "polar-answer"

    def prettify(self, data: bytes, metadata: contentviews.Metadata) -> str:
        text = answer_text(data) if metadata.websocket_message is None else server_frame_text(data)
        if text is None:
            raise ValueError("this is no answer of a dialect that polar_capture speaks")
        return text

    def render_priority(self, data: bytes, metadata: contentviews.Metadata) -> float:
        if metadata.flow is None or "polar_url" not in metadata.flow.metadata or not data:
            return -1
        if metadata.websocket_message is not None:
            return 2 if not metadata.websocket_message.from_client and server_frame_text(data) is not None else -1
        return 2 if isinstance(metadata.http_message, http.Response) else -1


class TokensView(contentviews.Contentview):
    """Ids, texts and logprobs of what was sampled."""

    name = "polar-tokens"

    def __init__(self, viewing: Viewing) -> None:
        self._viewing = viewing

    def prettify(self, data: bytes, metadata: contentviews.Metadata) -> str:
        calls = self._viewing.calls_of(metadata)
        if not calls:
            return NOT_CAPTURED if metadata.websocket_message is None else NO_END
        return "\n\n".join(token_table(row, self._viewing.pieces()) for rows in calls for row in rows)

    def render_priority(self, data: bytes, metadata: contentviews.Metadata) -> float:
        return 1 if self._viewing.calls_of(metadata) else -1


class ExchangeView(contentviews.Contentview):
    """What was asked of vLLM, and its answer."""

    name = "polar-vllm"

    def __init__(self, viewing: Viewing) -> None:
        self._viewing = viewing

    def prettify(self, data: bytes, metadata: contentviews.Metadata) -> str:
        calls = self._viewing.calls_of(metadata)
        if not calls:
            return NOT_CAPTURED if metadata.websocket_message is None else NO_END
        return "\n\n".join(exchange_text(rows) for rows in calls)

    def render_priority(self, data: bytes, metadata: contentviews.Metadata) -> float:
        return 0.5 if self._viewing.calls_of(metadata) else -1


def _wire(data: bytes, metadata: contentviews.Metadata) -> WireRequest | None:
    """The request whose body `data` is; None for answers. A WebSocket's frame stands for a request to its path."""
    flow = metadata.flow
    if not isinstance(flow, http.HTTPFlow):
        return None
    if metadata.websocket_message is not None:
        if not metadata.websocket_message.from_client:
            return None
    elif not isinstance(metadata.http_message, http.Request):
        return None
    request = flow.request
    headers = {name.lower(): value for name, value in request.headers.items()}
    method = "POST" if metadata.websocket_message is not None else request.method
    return WireRequest(method, request.path.partition("?")[0], headers, dict(request.query), data, request.pretty_host)


addons: Sequence[type[Viewing]] = (Viewing,)
"""Made by capture.py, which gives it the running proxy."""
