"""Codex CLI. Which tools it offers and where it compacts is said by the model catalog that the proxy serves it."""

from polar_capture.harnesses.preset import Npm, Preset, Way

_EXEC = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")

CATALOG = ("debug", "models", "--bundled")
"""Prints the catalog that this version ships."""

PRESET = Preset(
    name="codex",
    title="Codex CLI",
    package=Npm("@openai/codex", "0.171.0", "codex"),
    start=("exec", *_EXEC),
    again=("exec", "resume", "--last", *_EXEC),
    ways={"openai_responses": Way(model_arguments=("-m", "{model}"))},
    # It asks for the catalog only with this key, not with OPENAI_API_KEY alone.
    environment={"CODEX_API_KEY": "{key}"},
    ca=("SSL_CERT_FILE", "CODEX_CA_CERTIFICATE"),
    notes="--codex-tools native gives it its own code mode: one tool that takes JavaScript.",
)
