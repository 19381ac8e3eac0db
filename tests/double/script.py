"""What the double answers: steps, taken in order or by a rule on the request."""

import pathlib
from collections.abc import Callable
from typing import Any

import msgspec


class When(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Conditions on a request; all that are given must hold."""

    contains: str | None = None
    """This text stands somewhere in the body."""
    last_contains: str | None = None
    """This text stands in the last message."""
    last_role: str | None = None
    has_tools: bool | None = None
    prompt_ids: bool | None = None
    """The prompt came as ids, in either way."""


class Step(msgspec.Struct, forbid_unknown_fields=True):
    """One scripted answer. Everything has a default: `Step()` says "Hello." and ends its turn.

    `tool_calls` is a list of {"name", "arguments" (string, kept as it is, or an object), "id"?}.
    """

    content: str | None = "Hello."
    reasoning: str | None = None
    tool_calls: list[dict[str, Any]] = []
    finish_reason: str | None = None
    """None: stop, or tool_calls where there are some. `length` and `abort` leave out the end token."""
    stop_reason: str | int | None = None
    delay: float = 0.0
    """Seconds before the status line."""
    trickle: float = 0.0
    """Seconds between the first and the second half of the body."""
    status: int = 200
    headers: dict[str, str] = {}
    body: Any = None
    """The whole answer, in place of a composed one: an object is sent as JSON, a string as it is."""
    error: str | None = None
    """The message of an error in vLLM's shape, with `status`."""
    html: bool = False
    """A front proxy's HTML page instead of JSON."""
    drop: str | None = None
    """Cut the connection: `before` any byte, or at `half` of the body."""
    missing: list[str] = []
    """Any of prompt_token_ids, token_ids, logprobs, usage, choices."""
    fewer_logprobs: int = 0
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    """Values in turn, repeated to the length of the answer; default -0.1, -0.2, …, -0.7."""
    weight_versions: list[dict[str, Any]] | None = None
    usage: dict[str, Any] | None = None
    repeat: int = 1
    """Answer this many requests before the next step."""


class Rule(msgspec.Struct, forbid_unknown_fields=True):
    when: When
    step: Step


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """How the double behaves beside its steps."""

    model: str = "toy"
    aliases: list[str] = []
    any_model: bool = False
    """Answer for every model name."""
    root: str | None = None
    """Where the model was loaded from; None: a path of no meaning."""
    window: int = 65536
    version: str = "0.32.0"
    strips_thinking: bool = False
    double_bos: bool = False
    system_first: bool = False
    """400 for a system or developer message that is not the first."""
    alternation: bool = False
    """400 unless user and assistant messages alternate (tool messages stand for user)."""
    known_keys: bool = False
    """400 for a top-level key that vLLM does not know."""
    strict_arguments: bool = False
    """400 for replayed tool arguments that are no JSON."""
    reject_overrun: bool = False
    """400 where prompt + max_tokens is above the window, as vLLM before 0.32 did."""
    honour_prompt_ids: bool = True
    scale_out: bool = False
    """It has /render, /inference/v1/generate and /derender."""
    honour_generate_ids: bool = True
    """False: /inference/v1/generate samples from (and reports) what was rendered."""
    honour_max_tokens: bool = True
    return_ids: bool = True
    """False: an old server that ignores return_token_ids."""
    logprobs_mode: str = "raw_logprobs"
    weight_version: str | None = None
    """Not None: GET /weight_info tells it."""
    max_waiting: int | None = None
    """503 above so many requests at once."""
    close_after_500: bool = True
    canned: tuple[int, int] | None = None
    """(prompt ids, sampled tokens): answer every chat request with one preserialised body, parse and log nothing."""
    canned_turns: int = 1
    """So many bodies instead, whose prompts grow out of each other, chosen by the "turn N," in the request."""


Choose = Callable[[dict[str, Any], int], "Step | None"]


class Script(msgspec.Struct, forbid_unknown_fields=True):
    """The rules are tried first; then the steps are used up in order; then `default` answers for ever."""

    steps: list[Step] = []
    rules: list[Rule] = []
    default: Step = msgspec.field(default_factory=Step)
    options: Options = msgspec.field(default_factory=Options)

    @classmethod
    def load(cls, path: str | pathlib.Path) -> "Script":
        """Read a JSON script. Raises msgspec.ValidationError, which names the field."""
        return msgspec.json.decode(pathlib.Path(path).read_bytes(), type=cls)


def matches(when: When, body: dict[str, Any]) -> bool:
    last = (body.get("messages") or [{}])[-1]
    checks = [
        when.contains is None or when.contains in msgspec.json.encode(body).decode(),
        when.last_contains is None or when.last_contains in msgspec.json.encode(last).decode(),
        when.last_role is None or last.get("role") == when.last_role,
        when.has_tools is None or bool(body.get("tools")) == when.has_tools,
        when.prompt_ids is None
        or bool((body.get("kv_transfer_params") or {}).get("prompt_token_ids")) == when.prompt_ids,
    ]
    return all(checks)
