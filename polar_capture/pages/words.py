"""What reasons and breaks mean, in a sentence each, for the pages."""

from polar_capture.outcomes import Break, Reason

REASONS: dict[Reason, str] = {
    Reason.IDS_MISSING: "The engine gave no prompt ids or no completion ids.",
    Reason.LOGPROBS_MISSING: "The engine gave no logprobs.",
    Reason.LENGTH_MISMATCH: "Ids, logprobs and the reported count disagree.",
    Reason.LOGPROB_INVALID: "A logprob is NaN, positive, or the engine's sentinel -9999.0.",
    Reason.ABORTED: "The client left, or the engine cut the generation.",
    Reason.UNDELIVERED: "The answer never reached the harness whole.",
    Reason.SUPERSEDED_RETRY: "Another attempt at the same turn counts instead.",
    Reason.LATE_CALL: "It came after its session had ended.",
    Reason.SIDE: "A helper's call: a title, a quota probe, a router.",
    Reason.NESTED: "Another program that the agent started.",
    Reason.MIXED_POLICY: "The weights changed while it was sampled.",
    Reason.STALE_POLICY: "Its policy is older than the build allows, or not known.",
    Reason.UPSTREAM_ERROR: "The engine answered with an error.",
    Reason.REDACTED: "Something in it was redacted.",
    Reason.MULTIMODAL_STATE_MISSING: "It holds images or sound, which ids alone do not keep.",
    Reason.LIMIT_REACHED: "The session's limit was reached: the proxy answered in the engine's place.",
}
BREAKS: dict[Break, str] = {
    Break.RETOKENISED: "The same words came back as other tokens.",
    Break.THINKING_DROPPED: "The harness or the template left earlier reasoning out.",
    Break.ARGUMENTS_RESERIALISED: "Tool arguments came back spelled otherwise.",
    Break.HISTORY_EDITED: "An earlier message was changed, or the template renders it otherwise.",
    Break.COMPACTION: "The harness put a summary in the place of its history.",
    Break.SYSTEM_CHANGED: "The system prompt changed.",
    Break.TOOLS_CHANGED: "The list of tools changed.",
    Break.NEW_CONVERSATION: "A conversation of its own: a subagent, a helper, a fresh start.",
    Break.RETRY: "The same turn was asked for again.",
    Break.TRUNCATED_TURN: "The turn before was cut, and did not come back whole.",
    Break.EMPTY_TURN: "Nothing was sampled in the turn before.",
    Break.CAPTURE_GAP: "A turn between them has no ids or no row.",
}
