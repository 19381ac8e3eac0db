"""OpenHands CLI. Its shell tool is a tmux server that outlives it, and that later runs on the machine would share: it
gets a socket folder of its own, and is ended."""

import json

from polar_capture.harnesses.preset import Preset, PyPI, Way

_START = ("--headless", "--json", "--override-with-envs")
_PATIENCE = 3600
"""Seconds that it waits for an answer. It does not stream, and gives up after 300 by itself."""


def _llm(usage: str) -> dict[str, object]:
    # Model and key are needed to be read at all; the environment's take their place.
    return {"model": "anthropic/claude-sonnet-4-5-20250929", "api_key": "", "usage_id": usage, "timeout": _PATIENCE}


_SETTINGS = {
    "kind": "Agent",
    "llm": _llm("agent"),
    "tools": [],  # it puts in its own
    "system_prompt_kwargs": {"cli_mode": True},
    "condenser": {"kind": "LLMSummarizingCondenser", "llm": _llm("condenser"), "max_size": 80, "keep_first": 4},
}
"""What it writes by itself at its first start, with more patience."""

PRESET = Preset(
    name="openhands",
    title="OpenHands CLI",
    package=PyPI("openhands", "1.16.0", "openhands"),
    start=_START,
    again=(*_START, "--resume", "--last"),
    prompt=("-t", "{prompt}"),
    ways={
        "anthropic": Way(model="anthropic/claude-sonnet-4-5-20250929", environment={"LLM_MODEL": "{model}"}),
        "openai_chat": Way(model="openai/gpt-4o", environment={"LLM_MODEL": "{model}"}),
    },
    environment={"LLM_API_KEY": "{key}", "OPENHANDS_SUPPRESS_BANNER": "1", "TMUX_TMPDIR": "{home}"},
    ca=("SSL_CERT_FILE",),
    finish=("tmux", "-L", "openhands", "kill-server"),
    files={".openhands/agent_settings.json": json.dumps(_SETTINGS)},
    waits=_PATIENCE,
    notes="It condenses for ever when the context goes on overflowing: the proxy's --overflow-limit ends that.",
)
