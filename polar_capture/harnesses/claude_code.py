"""Claude Code. As root it refuses --dangerously-skip-permissions, so its tools are allowed by name."""

import json

from polar_capture.environment import DUMMY_KEY
from polar_capture.harnesses.preset import Npm, Preset, Way

_TOOLS = "Bash,Edit,Write,Read,Glob,Grep,NotebookEdit,Task,Agent,TodoWrite,Skill,WebFetch,WebSearch,ToolSearch"

_STATE = {
    "hasCompletedOnboarding": True,
    "theme": "dark",
    # A key that was not approved before makes the interactive mode ask; it is known by its last 20 characters.
    "customApiKeyResponses": {"approved": [DUMMY_KEY[-20:]], "rejected": []},
}

PRESET = Preset(
    name="claude-code",
    title="Claude Code",
    package=Npm("@anthropic-ai/claude-code", "2.1.332", "claude"),
    start=("-p", f"--allowedTools={_TOOLS}"),
    again=("-p", "-c", f"--allowedTools={_TOOLS}"),
    ways={"anthropic": Way(model_arguments=("--model", "{model}"), window=1_000_000)},
    files={".claude.json": json.dumps(_STATE)},
    ca=("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"),
    waits=600,
    notes="A malformed stream makes it ask again without one; API_TIMEOUT_MS sets how long it waits then.",
)
