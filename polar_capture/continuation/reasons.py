"""What became of a call's prompt: the closed list behind `calls.continuation`."""

import enum

ROOT = "root"
"""The conversation holds no sampled turn: there is nothing to continue."""
EXACT = "exact"
"""Sampled from the parent's prompt ids + completion ids + the template's tail; the engine's echo agreed."""
OFF = "off"
"""Turned off, or the engine does not sample from given ids."""


class Fork(enum.StrEnum):
    """Why a call that follows a sampled turn got a plain render of its messages. Stored as `fork:<reason>`."""

    UNSAMPLED_TURN = "unsampled_turn"  # the last assistant message was not sampled in this session
    TURN_EDITED = "turn_edited"  # the client changed what the last turn said
    TURNS_JOINED = "turns_joined"  # two assistant messages stand side by side and are rendered as one
    NOTHING_NEW = "nothing_new"  # no message behind the last turn
    PREFILL = "prefill"  # the client wants an unfinished assistant message continued
    MULTIMODAL = "multimodal"  # ids alone do not hold the images
    PARENT_NOT_KEPT = "parent_not_kept"  # the turn's tokens are not at hand (several choices, no ids, not in the store)
    SYSTEM_CHANGED = "system_changed"
    TOOLS_CHANGED = "tools_changed"
    OPTIONS_CHANGED = "options_changed"  # thinking or effort was switched, and the render with it
    HISTORY_EDITED = "history_edited"  # a message before the last turn is another one than the turn was sampled for
    CUT_THOUGHT = "cut_thought"  # the turn was cut inside its thought, and what closes it can't be told
    STOP_STRING = "stop_string"  # the turn's tokens hold a stop string that its text does not
    END_OF_TURN = "end_of_turn"  # the turn ended with another token than the template goes on with
    THINKING_STRIPPED = "thinking_stripped"  # the template drops an earlier thought, and is to have its way
    NOT_APPEND_ONLY = "not_append_only"  # the template rewrites what stood before
    TEMPLATE = "template"  # the derivations of the tail disagree
    WINDOW = "window"  # the ids would fill the window
    RENDER_FAILED = "render_failed"  # the engine could not be asked for its renders
    REFUSED = "refused"  # the engine refused the ids, or its way for them can't carry the call
    ECHO_DIFFERS = "echo_differs"  # the engine reports other prompt ids than were sent

    @property
    def stored(self) -> str:
        """The value of `calls.continuation`."""
        return f"fork:{self}"
