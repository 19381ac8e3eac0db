"""One small call in each dialect, for tests that hold for all of them."""

import json
from typing import Any

import msgspec


class Sent(msgspec.Struct, frozen=True):
    """How a dialect asks one question, and how its answer is read."""

    url: str
    body: dict[str, Any]
    stream_url: str
    stream_fields: dict[str, Any]

    def asking(self, text: str, *, stream: bool = False) -> tuple[str, dict[str, Any]]:
        body = json.loads(json.dumps(self.body).replace('"hi"', json.dumps(text)))
        return (self.stream_url, body | self.stream_fields) if stream else (self.url, body)


CALLS = {
    "openai_chat": Sent(
        "https://api.openai.com/v1/chat/completions",
        {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
        "https://api.openai.com/v1/chat/completions",
        {"stream": True},
    ),
    "anthropic": Sent(
        "https://api.anthropic.com/v1/messages",
        {"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]},
        "https://api.anthropic.com/v1/messages",
        {"stream": True},
    ),
    "openai_responses": Sent(
        "https://api.openai.com/v1/responses",
        {"model": "m", "input": "hi"},
        "https://api.openai.com/v1/responses",
        {"stream": True},
    ),
    "google": Sent(
        "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
        "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse",
        {},
    ),
}
