"""GitHub Copilot CLI with a provider of one's own, which needs no login. It unpacks 240 MB into each new HOME."""

from polar_capture.harnesses.preset import Npm, Preset, Way


def _provider(kind: str, url: str, model: str, window: int | None = None, **more: str) -> Way:
    return Way(
        model=model,
        environment={
            "COPILOT_PROVIDER_TYPE": kind,
            "COPILOT_PROVIDER_BASE_URL": url,
            "COPILOT_PROVIDER_API_KEY": "{key}",
            "COPILOT_MODEL": "{model}",
            **more,
        },
        window=window,
    )


PRESET = Preset(
    name="copilot",
    title="GitHub Copilot CLI",
    package=Npm("@github/copilot", "1.0.102", "copilot"),
    start=("--allow-all-tools",),
    again=("--allow-all-tools", "--continue"),
    prompt=("-p", "{prompt}"),
    ways={
        "anthropic": _provider("anthropic", "https://api.anthropic.com", "claude-sonnet-4.5", 160_000),
        "openai_chat": _provider("openai", "https://api.openai.com/v1", "gpt-5.4"),
        "openai_responses": _provider(
            "openai", "https://api.openai.com/v1", "gpt-5.4", COPILOT_PROVIDER_WIRE_API="responses"
        ),
    },
    ca=("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"),
    notes="It names no session, and no sub-agent's id: the proxy user and the token tree tell its calls apart.",
)
