"""Which items of the flat input list belong to one assistant turn.

The engine's model said reasoning, text and calls as one message; this dialect tells them as separate items. They must
come back as one message, or the prompt holds a turn that was never sampled and a tool result without its call in
front.
"""

from polar_capture.chat import Message, ToolCall
from polar_capture.dialects.openai_responses.sealed import token_of, turn_of


class Turns:
    """Collects the messages of a conversation in order. Assistant items join the open turn where they belong to it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._turn: Message | None = None
        self._stem: str | None = None
        self._unanswered: set[str] = set()
        self._answered = False

    def say(self, message: Message) -> None:
        """A message that is no part of an assistant turn: whatever turn was open is over."""
        self._close()
        self.messages.append(message)

    def reason(self, text: str, ids: list[str]) -> None:
        """A reasoning item. Without text it is kept only if an id of ours finds its turn again."""
        if not text and not any(turn_of(i) for i in ids):
            return
        turn = self._open("reasoning", ids)
        if text:
            turn.reasoning = f"{turn.reasoning}\n\n{text}" if turn.reasoning else text

    def speak(self, text: str, ids: list[str]) -> None:
        """An assistant message item."""
        turn = self._open("text", ids)
        if text:
            turn.content = f"{turn.content}\n\n{text}" if turn.content else text

    def call(self, name: str, arguments: str, call_id: str, ids: list[str]) -> None:
        """A tool call of any kind."""
        turn = self._open("call", [call_id, *ids])
        turn.tool_calls.append(ToolCall(call_id, name, arguments))
        self._unanswered.add(call_id)

    def answer(self, message: Message) -> None:
        """A tool's output; the turn stays open, since further calls of it may follow."""
        self._answered = True
        self._unanswered.discard(message.tool_call_id or "")
        self.messages.append(message)

    @property
    def last_call(self) -> str | None:
        """The call that an output without a call id can only mean."""
        return self._turn.tool_calls[-1].id if self._turn and self._turn.tool_calls else None

    def finish(self) -> list[Message]:
        self._close()
        return self.messages

    def _open(self, kind: str, ids: list[str]) -> Message:
        """The assistant message that an item of this kind with these ids goes to."""
        ours: list[str] = []
        stem: str | None = None
        for identifier in ids:
            token = token_of(identifier)
            of_turn = turn_of(token)
            if of_turn is not None:
                ours.append(token)
                stem = stem or of_turn
        if self._turn is None or not self._belongs(self._turn, kind, stem):
            self._close()
            self._turn = Message("assistant", tool_calls=[], echo=[])
            self.messages.append(self._turn)
        self._stem = self._stem or stem
        self._turn.echo += [token for token in ours if token not in self._turn.echo]
        return self._turn

    def _belongs(self, turn: Message, kind: str, stem: str | None) -> bool:
        if stem and self._stem:
            # Ours: the ids say it, even where a client puts each output right behind its call.
            return stem == self._stem
        if self._answered:
            return False
        if self._unanswered:
            # Nothing new can be sampled before a call has its output.
            return True
        return turn.content is None if kind in ("reasoning", "text") else True

    def _close(self) -> None:
        turn = self._turn
        if turn is not None and not (turn.content or turn.tool_calls or turn.reasoning or turn.echo):
            self.messages.remove(turn)
        self._turn = self._stem = None
        self._unanswered = set()
        self._answered = False
