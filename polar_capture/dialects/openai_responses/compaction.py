"""Compaction: the model sums up the conversation, and the summary stands for what was before it.

Two forms on the wire: a `compaction_trigger` as input item (Codex: the answer must be exactly one `compaction` item,
else its run fails), and POST /v1/responses/compact. The wording is ours.
"""

REQUEST = (
    "The conversation above is about to be replaced by a summary, because it no longer fits. Write that summary now. "
    "Whoever continues will see only your summary, so put in everything that is needed to go on without asking: "
    "what the user wants, in their own terms; what has been decided and why; what was done, with exact file paths, "
    "names, commands and results; what failed; the present state; and the next steps. Be complete but brief. "
    "Answer with the summary alone and call no tool."
)
"""The user message that asks the model for a summary."""

RESTORED = (
    "The earlier part of this conversation was replaced by this summary of it:\n\n"
    "<summary>\n{}\n</summary>\n\n"
    "Go on from there."
)
"""The user message by which a summary stands in the conversation later."""

UNREADABLE = (
    "(The earlier part of this conversation was replaced by a summary that only the provider who made it can read, "
    "so it is not known here.)"
)
"""Stands for a compaction item that is not ours."""
