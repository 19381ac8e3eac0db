"""Codex's model catalog (GET chatgpt.com/backend-api/codex/models): where Codex learns a model's window and kind of
tools.

An entry must carry the model's instructions, which are OpenAI's own text, so we can only change what a Codex
installation ships: `codex debug models --bundled` prints it. Without that source the answer is 404, and Codex keeps
its bundled catalog. Measured on codex-cli 0.171.0: an entry replaces the bundled one of its slug as a whole; one that
lacks `base_instructions`, or any other field Codex insists on, makes it drop the whole answer.
"""

from typing import Any, Literal

import msgspec

from polar_capture.dialects.base import ModelCard

CodexTools = Literal["classic", "native"]
"""`classic`: exec_command, apply_patch and the like as tools of their own. `native`: what the model's entry says,
today one `exec` tool that is given JavaScript ("code mode")."""

_CLASSIC = {"tool_mode": None, "use_responses_lite": False}


class CodexCatalog:
    """The catalog as we answer it. `source` is the JSON that Codex ships, or None."""

    def __init__(self, source: bytes | None = None, tools: CodexTools = "classic") -> None:
        """Raises ValueError where the source is no catalog."""
        self._models = None if source is None else _models_of(source)
        self._tools = tools

    def body(self, cards: list[ModelCard]) -> bytes | None:
        """All entries with our window and kind of tools, and one more for each served model that has none. None
        without a source: to be answered 404."""
        if self._models is None:
            return None
        window = next((card.window for card in cards if card.window), None)
        entries = [self._changed(model, window) for model in self._models]
        known = {entry["slug"] for entry in entries}
        for card in cards:
            if card.id not in known:
                entries.append(entries[0] | {"slug": card.id, "display_name": card.id, "visibility": "list"})
        return msgspec.json.encode({"models": entries})

    def _changed(self, model: dict[str, Any], window: int | None) -> dict[str, Any]:
        windows = {} if window is None else {"context_window": window, "max_context_window": window}
        return model | windows | (_CLASSIC if self._tools == "classic" else {})


def _models_of(source: bytes) -> list[dict[str, Any]]:
    try:
        models = msgspec.json.decode(source)["models"]
        if models and all(isinstance(model["slug"], str) for model in models):
            return models
    except (msgspec.DecodeError, KeyError, TypeError):
        pass
    raise ValueError("this is no Codex model catalog: use the output of `codex debug models --bundled`")
