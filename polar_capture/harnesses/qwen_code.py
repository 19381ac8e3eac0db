"""Qwen Code. The key alone does not start it: address and model name the way."""

from polar_capture.harnesses.preset import Npm, Preset, Way

PRESET = Preset(
    name="qwen-code",
    title="Qwen Code",
    package=Npm("@qwen-code/qwen-code", "0.24.4", "qwen"),
    start=("-y",),
    again=("-y", "-c"),
    prompt=("-p", "{prompt}"),
    ways={
        "openai_chat": Way(
            model="qwen3-coder-plus",
            arguments=("--auth-type", "openai"),
            environment={
                "OPENAI_API_KEY": "{key}",
                "OPENAI_BASE_URL": "https://api.openai.com/v1",
                "OPENAI_MODEL": "{model}",
            },
            window=1_000_000,
        ),
        "anthropic": Way(
            model="claude-sonnet-4-5",
            arguments=("--auth-type", "anthropic"),
            environment={
                "ANTHROPIC_API_KEY": "{key}",
                "ANTHROPIC_BASE_URL": "https://api.anthropic.com",
                "ANTHROPIC_MODEL": "{model}",
            },
            window=200_000,
        ),
        "openai_responses": Way(
            model="gpt-5.1",
            arguments=("--auth-type", "openai-responses"),
            environment={
                "OPENAI_API_KEY": "{key}",
                "OPENAI_BASE_URL": "https://api.openai.com/v1",
                "OPENAI_MODEL": "{model}",
            },
            window=272_000,
        ),
        "google": Way(
            model="gemini-2.5-pro",
            arguments=("--auth-type", "gemini"),
            environment={"GEMINI_API_KEY": "{key}", "GEMINI_MODEL": "{model}"},
            window=1_000_000,
        ),
    },
    ca=("NODE_EXTRA_CA_CERTS",),
    notes="On Messages its stream watchdog does not see pings: the proxy sends it empty deltas.",
)
