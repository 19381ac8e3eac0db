"""mini-swe-agent. It ends only when the model runs `echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT`."""

from polar_capture.harnesses.preset import Preset, PyPI, Way


def _litellm(model: str, key: str) -> Way:
    return Way(model=model, model_arguments=("-m", "{model}"), environment={key: "{key}"})


PRESET = Preset(
    name="mini-swe-agent",
    title="mini-swe-agent",
    package=PyPI("mini-swe-agent", "2.4.6", "mini"),
    start=("-y", "--exit-immediately"),
    prompt=("-t", "{prompt}"),
    ways={
        "anthropic": _litellm("anthropic/claude-sonnet-4-5-20250929", "ANTHROPIC_API_KEY"),
        "openai_chat": _litellm("openai/gpt-5.1", "OPENAI_API_KEY"),
        "google": _litellm("gemini/gemini-2.5-pro", "GEMINI_API_KEY"),
    },
    environment={"MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors"},
    ca=("SSL_CERT_FILE",),
    waits=600,
)
