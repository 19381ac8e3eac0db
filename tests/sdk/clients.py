"""Every way in which an official SDK asks: dialect, language, whole or streamed."""

import asyncio
from typing import Any

import msgspec

from tests.sdk.anthropic_client import Messages
from tests.sdk.google_client import Google
from tests.sdk.javascript import Node
from tests.sdk.openai_client import Chat, Responses
from tests.sdk.scenarios import PARAMETERS, SCHEMA, Asked, Told
from tests.sdk.stage import Stage

PYTHON: dict[str, Any] = {"chat": Chat, "messages": Messages, "responses": Responses, "google": Google}
LANGUAGES = ("python", "python-async", "javascript")


class Way(msgspec.Struct, frozen=True):
    api: str
    language: str
    streams: bool

    def __str__(self) -> str:
        return f"{self.api}-{self.language}-{'stream' if self.streams else 'json'}"

    def ask(self, stage: Stage, node: Node | None, session: str, asked: Asked, **options: Any) -> Told:
        """What the client was told. Raises the SDK's own error; JavaScriptError for one of the JavaScript SDKs."""
        if self.language == "python":
            return PYTHON[self.api].sync(stage, session, asked, self.streams, **options)
        if self.language == "python-async":
            return asyncio.run(PYTHON[self.api].asynchronous(stage, session, asked, self.streams, **options))
        assert node is not None
        result = node.run({"job": "ask", "session": session, **self.job(asked), **options})
        if "error" in result:
            raise JavaScriptError(result["error"])
        told = msgspec.convert(result, Told, strict=False)
        told.calls = [(name, arguments) for name, arguments in told.calls]
        return told

    def job(self, asked: Asked) -> dict[str, Any]:
        schemas = {"parameters": PARAMETERS, "schema": SCHEMA}
        return {"api": self.api, "streams": self.streams, "prompt": asked.prompt} | msgspec.to_builtins(asked) | schemas


class JavaScriptError(Exception):
    """What a JavaScript SDK threw: its `name`, `status`, `message`, `code`, `type`."""

    def __init__(self, said: dict[str, Any]) -> None:
        super().__init__(said["message"])
        self.said = said


WAYS = [Way(api, language, streams) for api in PYTHON for language in LANGUAGES for streams in (False, True)]
