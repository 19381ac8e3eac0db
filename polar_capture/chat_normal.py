"""One canonical message list for the engine, whatever the client's habits: prefixes only match when the form never
varies.

Rules, each prefix-safe (what stands before an assistant message never depends on what comes after it):
  * the system messages at the front become one;
  * a later system message becomes a user message in a fixed wrapper, where it stands: hoisting it would rewrite the
    prefix, and strict chat templates refuse a late system role;
  * the results of a turn's tool calls follow it at once, and what stood between comes behind them;
  * neighbours of one role become one message, since strict templates demand alternation (tool messages excepted);
  * text-only content is always a string.
"""

from polar_capture.chat import Content, MediaPart, Message, Part, TextPart

LATE_SYSTEM = "<system>\n{}\n</system>"
"""The fixed wrapper of a system message that stands within the conversation."""

JOINT = "\n\n"
"""Between the texts of neighbouring messages that became one."""


def normalise(messages: list[Message]) -> list[Message]:
    """The canonical form of a conversation. Pure; the input is not changed."""
    out: list[Message] = []
    leading = True
    for message in _results_first(messages):
        leading = leading and message.role == "system"
        if message.role == "system" and not leading:
            message = Message(role="user", content=_wrapped(message.content))
        else:
            message = _copy(message)
        if out and out[-1].role == message.role and message.role != "tool":
            _absorb(out[-1], message)
        else:
            out.append(message)
    return out


def _results_first(messages: list[Message]) -> list[Message]:
    """Nothing stands between the calls of a turn and their results: a user's word in there, which clients send before
    a slow tool has ended, breaks every template. A result behind the next turn stays where it is."""
    out: list[Message] = []
    waiting: list[Message] = []
    calling = False
    for message in messages:
        if message.role == "assistant":
            goes_on = not waiting and bool(out) and out[-1].role == "assistant"
            calling = bool(message.tool_calls) or (calling and goes_on)
            out += waiting
            waiting = []
            out.append(message)
        elif calling and message.role != "tool":
            waiting.append(message)
        else:
            out.append(message)
    return out + waiting


def text_of(content: Content) -> str:
    """The text of a content, media left out."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if isinstance(part, TextPart))


def _copy(message: Message) -> Message:
    return Message(
        role=message.role,
        content=_canonical(message.content),
        reasoning=message.reasoning or None,
        tool_calls=list(message.tool_calls),
        tool_call_id=message.tool_call_id,
        name=message.name,
    )


def _canonical(content: Content) -> Content:
    """A string where there is only text, else the parts."""
    if content is None or isinstance(content, str):
        return content
    if any(isinstance(part, MediaPart) for part in content):
        return list(content)
    return text_of(content)


def _wrapped(content: Content) -> Content:
    content = _canonical(content)
    if content is None or isinstance(content, str):
        return LATE_SYSTEM.format(content or "")
    opening, closing = LATE_SYSTEM.split("{}")
    return [TextPart(opening.rstrip()), *content, TextPart(closing.lstrip())]


def _absorb(into: Message, message: Message) -> None:
    into.content = _joined(into.content, message.content)
    if message.reasoning:
        into.reasoning = f"{into.reasoning}{JOINT}{message.reasoning}" if into.reasoning else message.reasoning
    into.tool_calls = into.tool_calls + message.tool_calls


def _joined(first: Content, second: Content) -> Content:
    if not first:
        return second
    if not second:
        return first
    if isinstance(first, str) and isinstance(second, str):
        return first + JOINT + second
    return _parts(first) + _parts(second)


def _parts(content: Content) -> list[Part]:
    if content is None:
        return []
    return [TextPart(content)] if isinstance(content, str) else list(content)
