"""OpenHands CLI. Its shell tool is a tmux server that outlives it, and that later runs on the machine would share: it
gets a socket folder of its own, and is ended."""

from polar_capture.harnesses.preset import Preset, PyPI, Way

PRESET = Preset(
    name="openhands",
    title="OpenHands CLI",
    package=PyPI("openhands", "1.16.0", "openhands"),
    start=("--headless", "--json", "--override-with-envs"),
    prompt=("-t", "{prompt}"),
    ways={
        "anthropic": Way(model="anthropic/claude-sonnet-4-5-20250929", environment={"LLM_MODEL": "{model}"}),
        "openai_chat": Way(model="openai/gpt-4o", environment={"LLM_MODEL": "{model}"}),
    },
    environment={"LLM_API_KEY": "{key}", "OPENHANDS_SUPPRESS_BANNER": "1", "TMUX_TMPDIR": "{home}"},
    ca=("SSL_CERT_FILE",),
    finish=("tmux", "-L", "openhands", "kill-server"),
    waits=300,
    notes="It condenses for ever when the context goes on overflowing: the proxy's --overflow-limit ends that.",
)
