"""What a server is and can do, found out by asking it: models, window, version, token ids, kind of logprobs."""

from typing import Any

import msgspec

from polar_capture.engine import scale_out
from polar_capture.engine.answers import NotAnAnswer, decode
from polar_capture.engine.pool import ServedModel, Upstream
from polar_capture.engine.refusals import fault_of
from polar_capture.engine.transport import Cut, TimedOut, Transport, Unreachable
from polar_capture.engine.wire import abilities, encode, with_prompt_ids

PATIENCE = 60.0
"""Seconds for the first generation of a server that has just started and may still compile."""

QUICK = 10.0
"""Seconds for answers that need no generation."""


class NoTokenIds(Exception):
    """The server answers without token ids or without usable logprobs; the message says what to do."""


class NoPromptIds(NoTokenIds):
    """The server does not sample from given prompt ids, which exact continuation needs; the message says what to do."""


class ModelNotServed(Exception):
    """The model that was asked for by name is not served."""


class NotReady(Exception):
    """The server cannot be asked now: down, starting or busy."""


class NotChecked(Exception):
    """The server is there but refused the probe: what it can do stays unknown."""


class _Card(msgspec.Struct):
    id: str
    max_model_len: int | None = None
    created: int = 0


class _Models(msgspec.Struct):
    data: list[_Card] = []


class _Version(msgspec.Struct):
    version: str | None = None


async def probe(transport: Transport, upstream: Upstream, model: str | None) -> None:
    """Find out all about an upstream and write it there. `model` is the name that is wanted; None takes the first.

    Raises NotReady, NotChecked, NoTokenIds, ModelNotServed.
    """
    try:
        await read_models(transport, upstream)
        if model is not None and upstream.models and model not in [m.id for m in upstream.models]:
            names = ", ".join(m.id for m in upstream.models)
            raise ModelNotServed(f"{upstream.url} does not serve {model!r}: it serves {names}")
        upstream.version = await _version(transport, upstream)
        upstream.can = abilities(upstream.version)
        upstream.tells_weights = await weight_version(transport, upstream) is not None
        name = model or (upstream.models[0].id if upstream.models else None)
        upstream.logprobs_mode = await _sample(transport, upstream, name)
    except (Unreachable, Cut, TimedOut) as error:
        raise NotReady(str(error)) from error
    upstream.checked = True


async def healthy(transport: Transport, upstream: Upstream) -> bool:
    """Whether the server answers GET /health (or has no such page)."""
    try:
        return (await transport.exchange("GET", upstream.url + "/health", timeout=QUICK)).status < 500
    except (Unreachable, Cut, TimedOut):
        return False


async def read_models(transport: Transport, upstream: Upstream) -> None:
    """Ask /v1/models again; a server that has no such page keeps what is known. Raises transport's errors, NotReady."""
    reply = await transport.exchange("GET", upstream.url + "/v1/models", timeout=QUICK)
    if reply.status in (429, 503):
        raise NotReady(fault_of(reply.status, reply.headers, reply.body).message)
    upstream.listed = True
    try:
        cards = msgspec.json.decode(reply.body, type=_Models).data if reply.status == 200 else []
    except msgspec.DecodeError:
        cards = []
    if cards:
        upstream.models = [ServedModel(card.id, card.max_model_len, card.created) for card in cards]


async def _version(transport: Transport, upstream: Upstream) -> str | None:
    reply = await transport.exchange("GET", upstream.url + "/version", timeout=QUICK)
    try:
        return msgspec.json.decode(reply.body, type=_Version).version if reply.status == 200 else None
    except msgspec.DecodeError:
        return None


class _WeightInfo(msgspec.Struct):
    weight_version: str | int | None = None


async def weight_version(transport: Transport, upstream: Upstream) -> str | None:
    """The server's own name of its weights (vLLM with VLLM_SERVER_DEV_MODE=1), or None. Raises transport's errors."""
    reply = await transport.exchange("GET", upstream.url + "/weight_info", timeout=QUICK)
    try:
        told = msgspec.json.decode(reply.body, type=_WeightInfo).weight_version if reply.status == 200 else None
    except msgspec.DecodeError:
        return None
    return None if told is None else str(told)


_FORCED = {"logit_bias": {"0": 100}, "max_tokens": 1}
"""Forces a token that the model would hardly choose: processed logprobs are then 0, raw ones far below."""

_GREEDY = {"max_tokens": 3}
"""For servers that refuse logit_bias: with top_k 1 processed logprobs are 0, raw ones hardly three times."""

_PROMPT_IDS = [1, 2, 1, 3, 1]
"""No template writes these, and every vocabulary has them: a prompt that is echoed as this was taken as ids."""


async def _sample(transport: Transport, upstream: Upstream, name: str | None) -> str:
    """Sample a token or three, and see what comes with them: the logprobs mode, and whether prompt ids are taken.

    One generation finds out both; where chat requests take no ids, the other way is tried.
    """
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 1.0,
        "top_k": 1,
        "top_p": 1.0,
        "stream": False,
        "logprobs": True,
        "top_logprobs": 0,
        "return_token_ids": True,
    }
    if name is not None:
        body["model"] = name
    url = upstream.url + "/v1/chat/completions"
    tries = (
        with_prompt_ids(encode(body | _FORCED), _PROMPT_IDS),
        encode(body | _FORCED),
        encode(body | _GREEDY),
    )
    for asked in tries:
        reply = await transport.exchange("POST", url, asked, timeout=PATIENCE)
        if reply.status not in (400, 422):
            break
    if reply.status != 200:
        message = fault_of(reply.status, reply.headers, reply.body).message
        raise (NotReady if reply.status in (429, 503) else NotChecked)(message)
    try:
        completion = decode(reply.body)
    except NotAnAnswer as error:
        raise NotChecked(f"200 with {error}") from error
    choice = completion.choices[0]
    server = f"{upstream.url} ({f'vLLM {upstream.version}' if upstream.version else 'a server that tells no version'})"
    if completion.prompt_token_ids is None or choice.token_ids is None:
        raise NoTokenIds(
            f"{server} ignores return_token_ids, so nothing could be captured exactly: serve the model with vLLM 0.11 "
            "or newer, and let no proxy in between drop the fields prompt_token_ids and token_ids"
        )
    if choice.logprobs is None:
        raise NoTokenIds(f"{server} returns no logprobs: start vLLM without options that turn them off")
    in_chat = completion.prompt_token_ids.tolist() == _PROMPT_IDS
    plain = encode(body | (_GREEDY if asked is tries[-1] else _FORCED))
    upstream.scale_out = not in_chat and await scale_out.works(transport, upstream.url, plain, _PROMPT_IDS)
    upstream.takes_prompt_ids = in_chat or upstream.scale_out
    return _mode(choice.logprobs, server)


def _mode(logprobs: list[float], server: str) -> str:
    if any(value > 1e-6 for value in logprobs):
        raise NoTokenIds(f"{server} returns logits in place of logprobs: start vLLM with --logprobs-mode raw_logprobs")
    certain = bool(logprobs) and all(value > -1e-6 for value in logprobs)
    return "processed_logprobs" if certain else "raw_logprobs"
