"""What a call's conversation said, as short digests: enough to tell *why* two prompts differ, without holding the text.

Read from the body that was sent to the engine and the message that came back, and only for calls whose chain broke.
"""

import hashlib
from typing import Any

import msgspec


class Turn(msgspec.Struct, frozen=True):
    """One message as digests; "" where it has nothing of the kind. Two equal turns say the same, however they were
    written: `calls` compares arguments as JSON values, `spelling` their raw strings."""

    role: str
    text: str = ""
    reasoning: str = ""
    calls: str = ""
    spelling: str = ""

    def says_the_same(self, other: "Turn") -> bool:
        """Role, text and calls agree; reasoning and the arguments' spelling may differ."""
        return (self.role, self.text, self.calls) == (other.role, other.text, other.calls)


class Conversation(msgspec.Struct, frozen=True):
    """A call's prompt as messages, and the turn that was sampled from it."""

    system: str
    tools: str
    turns: tuple[Turn, ...]
    answer: Turn | None
    thinking_off: bool

    @property
    def history(self) -> tuple[Turn, ...]:
        """The turns with the answer, as a client that continues it would send them back."""
        return self.turns if self.answer is None else (*self.turns, self.answer)


class _Body(msgspec.Struct):
    messages: list[dict[str, Any]] = []
    tools: list[Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None


def conversation(chat_request: bytes, message: bytes | None) -> Conversation | None:
    """Digests of a chat request as it was sent to the engine (JSON) and of the sampled message (JSON); None where they
    are not JSON of that shape."""
    try:
        body = msgspec.json.decode(chat_request, type=_Body)
        answer = msgspec.json.decode(message, type=dict[str, Any]) if message else None
    except msgspec.DecodeError:
        return None
    first = next((i for i, m in enumerate(body.messages) if m.get("role") not in ("system", "developer")), None)
    lead = body.messages if first is None else body.messages[:first]
    rest = [] if first is None else body.messages[first:]
    thinking = (body.chat_template_kwargs or {}).get("enable_thinking")
    return Conversation(
        system=_digest([_text(m.get("content")) for m in lead]),
        tools=_digest(body.tools),
        turns=tuple(_turn(m) for m in rest),
        answer=None if answer is None else _turn({"role": "assistant", **answer}),
        thinking_off=thinking is False or body.reasoning_effort == "none",
    )


def _turn(message: dict[str, Any]) -> Turn:
    functions = [c.get("function") or c for c in message.get("tool_calls") or [] if isinstance(c, dict)]
    return Turn(
        role=str(message.get("role")),
        text=_digest(_text(message.get("content"))),
        reasoning=_digest((message.get("reasoning") or message.get("reasoning_content") or "").strip()),
        calls=_digest([(f.get("name"), _value(f.get("arguments"))) for f in functions]),
        spelling=_digest([f.get("arguments") for f in functions]),
    )


def _text(content: Any) -> Any:
    """The text of a content, parts joined; what is no text stays as it is."""
    if isinstance(content, list):
        texts = [text for part in content if isinstance(part, dict) and isinstance(text := part.get("text"), str)]
        if len(texts) == len(content):
            content = "\n".join(texts)
    return content.strip() if isinstance(content, str) else content


def _value(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.decode(arguments.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeError):
        return arguments


def _digest(value: Any) -> str:
    """A short digest that does not depend on the order of keys; "" for what is empty."""
    if not value:
        return ""
    return hashlib.blake2b(msgspec.json.encode(value, order="deterministic"), digest_size=8).hexdigest()
