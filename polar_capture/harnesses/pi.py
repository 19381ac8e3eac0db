"""Pi. On Messages it opens a thread first; refused, it sends whole conversations for the rest of the session."""

from polar_capture.harnesses.preset import Npm, Preset, Way


def _provider(name: str, model: str, key: str, window: int) -> Way:
    return Way(
        model=model,
        arguments=("--provider", name),
        model_arguments=("--model", "{model}"),
        environment={key: "{key}"},
        window=window,
    )


PRESET = Preset(
    name="pi",
    title="Pi",
    package=Npm("@earendil-works/pi-coding-agent", "1.6.0", "pi"),
    start=("-p", "--thinking", "medium"),
    again=("-p", "-c", "--thinking", "medium"),
    ways={
        "anthropic": _provider("anthropic", "claude-sonnet-4-5", "ANTHROPIC_API_KEY", 200_000),
        "openai_responses": _provider("openai", "gpt-5.1", "OPENAI_API_KEY", 400_000),
        "google": _provider("google", "gemini-2.5-pro", "GEMINI_API_KEY", 1_048_576),
        "openai_chat": _provider("deepseek", "deepseek-v4-pro", "DEEPSEEK_API_KEY", 1_000_000),
    },
    ca=("NODE_EXTRA_CA_CERTS",),
    notes="It has no sub-agents and ignores retry-after; it sums up only what lies behind the last 20,000 tokens.",
)
