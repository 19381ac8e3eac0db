"""Gemini CLI. Before each user turn it asks a small model how hard the task is: a side call."""

from polar_capture.harnesses.preset import Npm, Preset, Way

PRESET = Preset(
    name="gemini-cli",
    title="Gemini CLI",
    package=Npm("@google/gemini-cli", "0.61.0", "gemini"),
    start=("-y", "--skip-trust"),
    again=("-y", "--skip-trust", "--resume", "latest"),
    prompt=("-p", "{prompt}"),
    ways={"google": Way(model_arguments=("-m", "{model}"), window=1_048_576)},
    environment={"GEMINI_API_KEY": "{key}"},
    ca=("NODE_EXTRA_CA_CERTS",),
    notes="It drops thoughts from its history and names no session. It sums up only between user turns: an overflow "
    "within one ends the run.",
)
