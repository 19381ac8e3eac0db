"""Code Assist's onboarding, which Gemini CLI with a Google login asks for before its first model call.

Shapes (field names only) after Gemini CLI's own client: `loadCodeAssist` names the tier and the project, `onboardUser`
is a finished long-running operation.
"""

import msgspec

from polar_capture.dialects.base import HttpAnswer

_PROJECT = "polar-capture"
_TIER = {"id": "standard-tier", "name": "polar-capture", "userDefinedCloudaicompanionProject": False}


def onboarding(step: str) -> HttpAnswer:
    """The answer to `loadCodeAssist` or `onboardUser`: a user who has been let in already."""
    if step == "onboardUser":
        project = {"cloudaicompanionProject": {"id": _PROJECT, "name": _PROJECT}}
        body: dict[str, object] = {"name": "operations/polar-capture", "done": True, "response": project}
    else:
        body = {"currentTier": _TIER, "allowedTiers": [], "cloudaicompanionProject": _PROJECT}
    return HttpAnswer(200, msgspec.json.encode(body))
