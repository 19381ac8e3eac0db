"""The closed lists of DESIGN §6: why a call is not trainable, why a chain broke, what a sample is worth."""

import enum


class Reason(enum.StrEnum):
    """Why a call is not trainable."""

    IDS_MISSING = "ids_missing"  # the engine gave no prompt ids or no completion ids
    LOGPROBS_MISSING = "logprobs_missing"
    LENGTH_MISMATCH = "length_mismatch"  # ids, logprobs and the reported count disagree
    LOGPROB_INVALID = "logprob_invalid"  # NaN, positive, or the engine's sentinel -9999.0
    ABORTED = "aborted"  # the client left, or the engine cut the generation
    UNDELIVERED = "undelivered"  # the answer never reached the client whole
    SUPERSEDED_RETRY = "superseded_retry"  # another attempt at the same turn counts instead
    LATE_CALL = "late_call"  # came after its session had ended
    SIDE = "side"  # a helper's call: title, quota probe, router
    NESTED = "nested"  # another program that the agent started
    MIXED_POLICY = "mixed_policy"  # weights changed while it was sampled
    STALE_POLICY = "stale_policy"  # its policy is older than the build allows, or not known
    UPSTREAM_ERROR = "upstream_error"
    REDACTED = "redacted"
    MULTIMODAL_STATE_MISSING = "multimodal_state_missing"  # ids alone do not hold the images
    LIMIT_REACHED = "limit_reached"  # the session's limit: the proxy answered in the engine's place


class Warning(enum.StrEnum):
    """What is odd about a call that may still be trainable."""

    SAMPLING_SHAPED = "sampling_shaped"  # raw logprobs under a shaped distribution
    MAX_TOKENS_CLAMPED = "max_tokens_clamped"
    UNMAPPED_FIELDS = "unmapped_fields"
    UNATTRIBUTED = "unattributed"
    CUT_TOOL_CALL = "cut_tool_call"  # the generation was cut inside or right behind a tool call
    LOGPROBS_ALL_ZERO = "logprobs_all_zero"  # 8 or more, all exactly 0: speculative decoding hides the real ones
    DOUBLE_BOS = "double_bos"  # template and tokenizer both added a BOS
    PROMPT_IDS_IGNORED = "prompt_ids_ignored"  # the engine reports other prompt ids than it was sent
    SECRET_IN_PROMPT = "secret_in_prompt"  # something in the texts has the shape of a well-known key


class Break(enum.StrEnum):
    """Why a call does not continue its parent exactly."""

    RETOKENISED = "retokenised"
    THINKING_DROPPED = "thinking_dropped"
    ARGUMENTS_RESERIALISED = "arguments_reserialised"
    HISTORY_EDITED = "history_edited"
    COMPACTION = "compaction"
    SYSTEM_CHANGED = "system_changed"
    TOOLS_CHANGED = "tools_changed"
    NEW_CONVERSATION = "new_conversation"
    RETRY = "retry"
    TRUNCATED_TURN = "truncated_turn"
    EMPTY_TURN = "empty_turn"
    CAPTURE_GAP = "capture_gap"  # a turn between them has no ids, or no row: nothing is joined across it


class Verdict(enum.StrEnum):
    """What is proved of a sample."""

    EXACT = "exact"
    SPLIT = "split"
    REPAIRED = "repaired"
    NOT_TRAINABLE = "not_trainable"


class SessionStatus(enum.StrEnum):
    OPEN = "open"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    ABANDONED = "abandoned"
