"""Why a call does not continue its predecessor: one member of `outcomes.Break`, from the tokens first, then the
messages.

Where the prompts part (`at`) is a fact of the tokens. The name of the cause is read off the place (inside a sampled
turn, before it, behind it) and, where both conversations are at hand, off what was said in them.
"""

import numpy as np

from polar_capture.outcomes import Break
from polar_capture.trajectories.conversations import Conversation
from polar_capture.trajectories.rows import Int32Array
from polar_capture.trajectories.tree import Place, TokenTree

SPLITTING = frozenset({Break.RETOKENISED, Break.THINKING_DROPPED, Break.ARGUMENTS_RESERIALISED, Break.CAPTURE_GAP})
"""Breaks inside what the policy sampled: its context goes on with another copy of a sampled turn, or with one that was
not captured. What follows is `split`. After the others the harness chose a new context, and what follows is whole."""

REWRITE_WINDOW = 16
"""How far behind a break the rest of a turn may reappear: templates put at most a few tokens (an empty think block, a
role header) where the reasoning was."""

GLUE_TOKENS = 8
"""Longest block of a generation prompt that is taken for template glue; Qwen3's empty think block has 4 tokens."""


def classify(
    tree: TokenTree,
    place: Place,
    earlier: Place,
    at: int,
    sampled: Place | None,
    said: Conversation | None,
    said_earlier: Conversation | None,
) -> Break:
    """Names the break between `place` and its predecessor `earlier`, whose tokens agree up to `at`.

    `sampled` is the call (the predecessor or one that it continues) whose sampled tokens the break falls into or right
    behind, if any.
    """
    if at == place.prompt_len == earlier.prompt_len and earlier.full_len > earlier.prompt_len:
        return Break.RETRY
    if earlier.full_len == earlier.prompt_len == at:
        return Break.EMPTY_TURN
    prompt = tree.tokens(place, 0, place.prompt_len)
    if said is not None and said_earlier is not None:
        cause = _from_messages(said, said_earlier)
        if cause is not None:
            return cause
    if sampled is not None:
        cut = sampled.row.finish_reason in ("length", "abort")
        if said is not None and said_earlier is not None and not _holds_answer(said, said_earlier) and cut:
            return Break.TRUNCATED_TURN
        reasoned = said_earlier is not None and any(turn.reasoning for turn in said_earlier.history)
        if head_dropped(tree, sampled, prompt, at, REWRITE_WINDOW if reasoned else 0):
            return Break.THINKING_DROPPED
        if cut:
            return Break.TRUNCATED_TURN
        return Break.RETOKENISED if _answers(said, said_earlier) else Break.HISTORY_EDITED
    if glue(tree, earlier, prompt, at) is not None and _answers(said, said_earlier):
        return Break.THINKING_DROPPED
    if earlier.row.finish_reason in ("length", "abort") and at >= earlier.prompt_len - GLUE_TOKENS:
        return Break.TRUNCATED_TURN
    if said is not None and said_earlier is not None:
        return _from_history(said, said_earlier)
    return _from_tokens(tree, place, earlier, prompt, at)


def head_dropped(tree: TokenTree, sampled: Place, prompt: Int32Array, at: int, window: int) -> bool:
    """The end of a sampled turn, two tokens or more, follows at `at` (or within `window` tokens) with what lay before
    it left out."""
    completion = tree.tokens(sampled, sampled.prompt_len)
    lost = max(at - sampled.prompt_len, 0)
    for offset in range(at, min(at + window + 1, len(prompt))):
        for start in np.flatnonzero(completion[lost + 1 : -1] == prompt[offset]) + lost + 1:
            tail = completion[start:]
            if np.array_equal(prompt[offset : offset + len(tail)], tail):
                return True
    return False


def glue(tree: TokenTree, earlier: Place, prompt: Int32Array, at: int) -> Int32Array | None:
    """The block that ended the predecessor's generation prompt and is not in its replay, or None.

    Proved by tokens: the prompts agree up to the block, and the whole sampled turn follows where the block was.
    """
    size = earlier.prompt_len - at
    if not 0 < size <= min(GLUE_TOKENS, at) or earlier.full_len == earlier.prompt_len:
        return None
    completion = tree.tokens(earlier, earlier.prompt_len)
    replay = prompt[at : at + len(completion)]
    return tree.tokens(earlier, at, earlier.prompt_len) if np.array_equal(replay, completion) else None


def _from_messages(said: Conversation, earlier: Conversation) -> Break | None:
    """The cause where the head of the prompt, or a whole turn that both hold, tells it; None where it lies deeper."""
    same_start = bool(said.turns and earlier.turns) and said.turns[0] == earlier.turns[0]
    if same_start and said.tools != earlier.tools:
        return Break.TOOLS_CHANGED
    if same_start and said.system != earlier.system:
        return Break.SYSTEM_CHANGED
    for mine, theirs in zip(said.turns, earlier.history, strict=False):
        if mine == theirs:
            continue
        if not mine.says_the_same(theirs):
            return None
        if mine.reasoning != theirs.reasoning:
            return Break.THINKING_DROPPED if theirs.reasoning and not mine.reasoning else Break.HISTORY_EDITED
        return Break.ARGUMENTS_RESERIALISED
    return None


def _holds_answer(said: Conversation, earlier: Conversation) -> bool:
    place = len(earlier.turns)
    return earlier.answer is not None and len(said.turns) > place and said.turns[place].says_the_same(earlier.answer)


def _answers(said: Conversation | None, earlier: Conversation | None) -> bool:
    """The sampled turn came back as the client got it, as far as one can know."""
    if said is None or earlier is None or len(said.turns) <= len(earlier.turns):
        return True
    return _holds_answer(said, earlier)


def _from_history(said: Conversation, earlier: Conversation) -> Break:
    """The cause where what was said differs before the predecessor's own turn."""
    shared = 0
    for mine, theirs in zip(said.turns, earlier.history, strict=False):
        if mine != theirs:
            break
        shared += 1
    if shared == len(earlier.history) and shared < len(said.turns):
        return Break.HISTORY_EDITED  # by the template: the same messages, rendered otherwise
    if shared == 0 and earlier.answer is not None and len(earlier.turns) < 2:
        return Break.NEW_CONVERSATION
    if len(said.turns) < len(earlier.turns) and shared < len(said.turns):
        return Break.COMPACTION
    return Break.NEW_CONVERSATION if shared == 0 else Break.HISTORY_EDITED


def _from_tokens(tree: TokenTree, place: Place, earlier: Place, prompt: Int32Array, at: int) -> Break:
    """The cause by tokens alone: a summary that was sampled and now stands in the prompt, an edit, or a fresh start."""
    own = tree.tokens(earlier, earlier.prompt_len)
    if _contains(prompt[at:], own):
        return Break.HISTORY_EDITED if at >= earlier.prompt_len // 2 else Break.COMPACTION
    return Break.HISTORY_EDITED if 2 * at >= min(place.prompt_len, earlier.prompt_len) else Break.NEW_CONVERSATION


def _contains(ids: Int32Array, part: Int32Array) -> bool:
    if not len(part) or len(part) > len(ids):
        return False
    starts = np.flatnonzero(ids[: len(ids) - len(part) + 1] == part[0])
    return any(np.array_equal(ids[start : start + len(part)], part) for start in starts[:4096])
