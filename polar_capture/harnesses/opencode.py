"""OpenCode. It names provider and model in one word."""

from polar_capture.harnesses.preset import Npm, Preset, Way


def _provider(name: str, model: str, key: str, window: int) -> Way:
    return Way(model=f"{name}/{model}", model_arguments=("-m", "{model}"), environment={key: "{key}"}, window=window)


PRESET = Preset(
    name="opencode",
    title="OpenCode",
    package=Npm("opencode-ai", "1.18.33", "opencode"),
    start=("run", "--auto"),
    again=("run", "--auto", "-c"),
    ways={
        "anthropic": _provider("anthropic", "claude-sonnet-4-5", "ANTHROPIC_API_KEY", 1_000_000),
        "openai_responses": _provider("openai", "gpt-5.1", "OPENAI_API_KEY", 272_000),
        "google": _provider("google", "gemini-2.5-pro", "GOOGLE_GENERATIVE_AI_API_KEY", 1_048_576),
        "openai_chat": _provider("deepseek", "deepseek-v4-pro", "DEEPSEEK_API_KEY", 1_000_000),
    },
    ca=("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"),
    notes="It summarises for ever when the context goes on overflowing: the proxy's --overflow-limit ends that.",
)
