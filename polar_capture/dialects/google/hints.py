"""What a generateContent request tells of its place: Gemini CLI names nothing but what Code Assist carries."""

import msgspec

from polar_capture.chat import ChatRequest
from polar_capture.dialects import header_hints
from polar_capture.dialects.base import Hints, WireRequest


def read_hints(wire: WireRequest, chat: ChatRequest, session: str | None, prompt: str | None) -> Hints:
    """`session` and `prompt` are Code Assist's own ids of the session and the user's prompt."""
    hints = header_hints.from_headers(wire.headers)
    hints = msgspec.structs.replace(hints, session=hints.session or session, user_turn=prompt)
    if hints.harness == "gemini-cli" and not chat.tools and _wants_json(chat):
        # Before each user turn a small model scores how hard the task is; other helpers ask for JSON too.
        agent = "aux:router" if "flash-lite" in (chat.model or "") else "aux:json"
        return msgspec.structs.replace(hints, kind="side", agent=agent)
    return hints


def _wants_json(chat: ChatRequest) -> bool:
    return chat.response_format is not None and chat.response_format["type"] == "json_schema"
