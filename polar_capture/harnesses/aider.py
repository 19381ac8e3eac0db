"""aider. It uses no tools: the model's words are edits, which aider applies."""

from polar_capture.harnesses.preset import Preset, PyPI, Way

_START = ("--yes-always", "--no-git", "--no-show-model-warnings")


def _litellm(model: str, key: str) -> Way:
    return Way(model=model, model_arguments=("--model", "{model}"), environment={key: "{key}"})


PRESET = Preset(
    name="aider",
    title="aider",
    package=PyPI("aider-chat", "0.86.2", "aider"),
    start=_START,
    # What was said is kept in the working folder, not in HOME.
    again=(*_START, "--restore-chat-history"),
    prompt=("--message", "{prompt}"),
    ways={
        "openai_chat": _litellm("gpt-4o", "OPENAI_API_KEY"),
        "anthropic": _litellm("anthropic/claude-sonnet-4-20250514", "ANTHROPIC_API_KEY"),
    },
    ca=("SSL_CERT_FILE",),
    notes="It ends with status 0 whatever happened to its calls: `run` tells when none was captured.",
)
