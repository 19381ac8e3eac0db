"""Plans a call's prompt: asks the engine for its renders, and settles by the engine's echo what came of it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
import numpy as np

from polar_capture.chat import ChatRequest, Completion, Message
from polar_capture.continuation import tails, thoughts
from polar_capture.continuation.asked import Asked, asked, options_digest
from polar_capture.continuation.contexts import Context, Contexts, ending_of, joined
from polar_capture.continuation.history import Step, step
from polar_capture.continuation.plans import Check, Plan
from polar_capture.continuation.reasons import EXACT, OFF, ROOT, Fork
from polar_capture.continuation.tails import Frame, Ids, Seam
from polar_capture.continuation.thoughts import Closing
from polar_capture.faults import CallError, Fault, FaultKind
from polar_capture.lineage.turns import Restored

log = logging.getLogger(__name__)


class RenderingEngine(Protocol):
    """What is asked of the engine (`engine.client.Engine`)."""

    async def render(
        self, chat: ChatRequest, *, add_generation_prompt: bool = True, session: str = ""
    ) -> list[int]: ...

    def template_options(self, chat: ChatRequest, session: str = "") -> dict[str, Any]: ...

    def takes_prompt_ids(self, session: str = "") -> str | None: ...

    def distrust_prompt_ids(self, url: str) -> None: ...

    @property
    def window(self) -> int | None: ...


class Answered(Protocol):
    """What is read of a generation (`engine.client.Generation`)."""

    completion: Completion
    upstream: str
    limit: int | None
    ids_refused: bool


class Planner:
    """Plans calls and remembers what they ended with. `read` brings back what only the store knows.

    `mode` is `auto`, `exact` or `off`; with `keep_thinking` false the template's dropping of thoughts is respected.
    """

    def __init__(
        self,
        engine: RenderingEngine,
        read: Callable[[str], Awaitable[Context | None]],
        *,
        mode: str = "auto",
        keep_thinking: bool = True,
        contexts: Contexts | None = None,
    ) -> None:
        self._engine = engine
        self._read = read
        self._mode = mode
        self._keep_thinking = keep_thinking
        self._contexts = contexts or Contexts()
        self._frames: dict[tuple[str, bool, bool, bytes], Frame] = {}
        self._closings: dict[tuple[str, bool, bytes], Closing] = {}
        self._proved: set[tuple[str, bytes]] = set()

    async def plan(self, session: str, chat: ChatRequest, restored: Restored) -> Plan:
        """The plan of one call, given its restored and canonical conversation.

        Raises CallError only in mode `exact`, for an engine that does not sample from given ids.
        """
        if self._mode == "off":
            return Plan(OFF)
        url = self._engine.takes_prompt_ids(session)
        if url is None:
            if self._mode == "exact":
                raise CallError(
                    Fault(
                        FaultKind.UNAVAILABLE,
                        "the session's engine does not sample from given prompt ids (or was not checked yet), which "
                        "--continuation exact needs: serve the model with vLLM 0.32 or newer",
                    )
                )
            return Plan(OFF)
        found = step(chat, restored)
        options = self._engine.template_options(chat, session)
        if not isinstance(found, Step):
            now = asked(chat, options)[-1]
            return Plan(ROOT if found is None else found.stored, asked=now)
        before, now = asked(chat, options, [found.answer])
        result = await self._continued(session, url, chat, found, before)
        if isinstance(result, Fork):
            log.debug("session %s: call %s is not continued: %s", session, found.parents[0], result)
            return Plan(result.stored, asked=now)
        prompt, plain = result
        if callable(plain):
            return Plan(EXACT, prompt.tolist(), now, check=plain)
        return Plan(EXACT, prompt.tolist(), now, plain)

    def settle(self, plan: Plan, generation: Answered) -> str:
        """What became of a plan: the value of `calls.continuation`.

        An echo that differs from the ids that were sent is an error in the log, and this engine is sent none any more.
        """
        if plan.prompt_ids is None:
            return plan.outcome
        if generation.ids_refused:
            return Fork.REFUSED.stored
        echo = generation.completion.prompt_token_ids
        if echo is not None and np.array_equal(echo, plan.prompt_ids):
            return plan.outcome
        log.error(
            "engine %s was sent %d prompt ids and reports others (%s): no call of it is continued any more",
            generation.upstream,
            len(plan.prompt_ids),
            "none" if echo is None else len(echo),
        )
        self._engine.distrust_prompt_ids(generation.upstream)
        return Fork.ECHO_DIFFERS.stored

    def remember(self, call_id: str, plan: Plan, outcome: str, prompt: Ids | None, generation: Answered) -> None:
        """Keep what a recorded call ended with. Of several choices nobody can tell which one is continued."""
        choices = generation.completion.choices
        if plan.asked is None or prompt is None or len(choices) != 1 or not choices[0].token_ids:
            return
        sampled = np.asarray(choices[0].token_ids, np.int32)
        plain = plan.plain if outcome == EXACT else prompt
        ending = ending_of(choices[0].message, choices[0].finish_reason, choices[0].stop_reason, sampled)
        if choices[0].finish_reason == "tool_calls" and generation.limit is not None:
            ending = msgspec.structs.replace(ending, cut=len(sampled) >= generation.limit)
        self._contexts.add(call_id, Context(joined(prompt, sampled), len(sampled), plan.asked, ending, plain))

    # --- one continuation --------------------------------------------------------------------------------------------

    async def _continued(
        self, session: str, url: str, chat: ChatRequest, found: Step, before: Asked
    ) -> tuple[Ids, Check | Ids] | Fork:
        """The prompt ids that continue the parent, and the plain render of the conversation or how it is proved."""
        refusal: Fork | None = None
        try:
            for call_id in found.parents:
                kept = self._contexts.get(call_id) or await self._read(call_id)
                if kept is None:
                    refusal = refusal or Fork.PARENT_NOT_KEPT
                    continue
                difference = kept.asked.difference(before)
                if difference is Fork.OPTIONS_CHANGED and await self._options_do_nothing(session, chat, found, kept):
                    difference = None
                if difference is None:
                    return await self._spliced(session, url, chat, found, kept)
                refusal = refusal or difference
            return refusal or Fork.PARENT_NOT_KEPT
        except CallError as error:
            log.warning("session %s: the engine gave no render: %s", session, error.fault.message)
            return Fork.RENDER_FAILED

    async def _options_do_nothing(self, session: str, chat: ChatRequest, found: Step, kept: Context) -> bool:
        """Whether a prompt has the same render under the options of now: thinking that is asked for in so many words
        and thinking by default, say. LiteLLM stops asking behind a tool call without a thought."""
        if kept.plain is None:
            return False
        return np.array_equal(kept.plain, await self._render(session, _upto(chat, found.answer)))

    async def _spliced(
        self, session: str, url: str, chat: ChatRequest, found: Step, context: Context
    ) -> tuple[Ids, Check | Ids] | Fork:
        """The ids, and the plain render of the conversation; or how it is still to be proved that these are they."""
        answer, new = chat.messages[found.answer], chat.messages[found.answer + 1 :]
        before = _before(chat, found)
        key = (url, options_digest(self._engine.template_options(chat, session)))
        later = key in self._proved and self._keep_thinking and not context.ending.thought
        known, (short, turn), wholes = await asyncio.gather(
            self._frame(session, url, chat, before, new[0].role),
            asyncio.gather(
                self._render(session, _bare(chat, [*tails.asking(before), tails.ANSWERS[0], *new])),
                self._render(session, _bare(chat, [*tails.asking(before), answer, *new])),
            ),
            _nothing() if later else self._wholes(session, chat, found, context),
        )
        if isinstance(known, Fork):
            return known
        joint = tails.brief_seam(known, short, turn)
        if isinstance(joint, Fork):
            return self._unlearned(key, joint)

        async def proved(wholes: tuple[Ids, Ids]) -> Ids | Fork:
            refusal = await self._refusal(session, chat, found, known, joint, short, wholes)
            if refusal is None:
                self._proved.add(key)
            return wholes[1] if refusal is None else self._unlearned(key, refusal)

        async def check() -> Ids | Fork:
            return await proved(await self._wholes(session, chat, found, context))

        plain = check if wholes is None else await proved(wholes)
        if isinstance(plain, Fork):
            return plain
        mark: Ids | None = None
        if context.ending.thought:
            closed = await self._mark(session, url, chat, found, known, context, joint.after)
            if isinstance(closed, Fork):
                return closed
            mark = closed
        tail = tails.tail(joint.after, int(context.ids[-1]), context.ending, mark)
        if isinstance(tail, Fork):
            return tail
        prompt = joined(context.ids, tail)
        window = self._engine.window
        return Fork.WINDOW if window is not None and len(prompt) >= window else (prompt, plain)

    async def _wholes(self, session: str, chat: ChatRequest, found: Step, context: Context) -> tuple[Ids, Ids]:
        """The whole renders: the one that the parent was asked, and the one of now."""
        if context.plain is not None:
            return context.plain, await self._render(session, chat)
        return await asyncio.gather(
            self._render(session, _upto(chat, found.answer)),
            self._render(session, chat),
        )

    async def _refusal(
        self,
        session: str,
        chat: ChatRequest,
        found: Step,
        known: Frame,
        joint: Seam,
        short: Ids,
        wholes: tuple[Ids, Ids],
    ) -> Fork | None:
        """Why the whole renders do not bear out what the short ones tell; None: they do."""
        before, full = wholes
        if not tails.ends(full, joined(joint.turn, joint.after)):
            return Fork.TEMPLATE
        if not tails.appended(known.opening, joint, before, full):
            return await self._rewritten(session, chat, found, known, short)
        if not self._keep_thinking and await self._drops_thought(session, chat, found, joint):
            return Fork.THINKING_STRIPPED
        return None

    def _unlearned(self, key: tuple[str, bytes], refusal: Fork) -> Fork:
        """The refusal, noted: the next call is proved before it is sampled, and learns the template anew."""
        self._proved.discard(key)
        if refusal is Fork.TEMPLATE:
            self._frames.clear()  # another template may be served now
            self._closings.clear()
        return refusal

    async def _rewritten(self, session: str, chat: ChatRequest, found: Step, known: Frame, short: Ids) -> Fork | None:
        """Why a call is not continued whose plain render is not its parent's and more. None: all that the template
        rewrites are thoughts, since without them it only appends; and thoughts are to be kept."""
        if not any(message.reasoning for message in chat.messages):
            return Fork.NOT_APPEND_ONLY
        if not self._keep_thinking:
            return Fork.THINKING_STRIPPED
        silent = msgspec.structs.replace(chat, messages=[_without_thought(m) for m in chat.messages])
        answer, new = silent.messages[found.answer], silent.messages[found.answer + 1 :]
        turn, before, now = await asyncio.gather(
            self._render(session, _bare(chat, [*tails.asking(_before(silent, found)), answer, *new])),
            self._render(session, _upto(silent, found.answer)),
            self._render(session, silent),
        )
        joint = tails.seam(known, short, turn, now)
        if isinstance(joint, Fork) or not tails.appended(known.opening, joint, before, now):
            return Fork.NOT_APPEND_ONLY
        return None

    async def _drops_thought(self, session: str, chat: ChatRequest, found: Step, joint: Seam) -> bool:
        """Whether the last answer is rendered without its thought."""
        answer, new = chat.messages[found.answer], chat.messages[found.answer + 1 :]
        if not answer.reasoning:
            return False
        asking = tails.asking(_before(chat, found))
        silent = await self._render(session, _bare(chat, [*asking, _without_thought(answer), *new]))
        return bool(np.array_equal(silent[-len(joint.turn) - len(joint.after) :], joined(joint.turn, joint.after)))

    async def _mark(
        self,
        session: str,
        url: str,
        chat: ChatRequest,
        found: Step,
        known: Frame,
        context: Context,
        after: Ids,
    ) -> Ids | Fork:
        """The ids by which the template closes the thought that the parent was cut in. The others are left out of the
        renders: a template may show that of the last answer alone."""
        silent = msgspec.structs.replace(chat, messages=[_without_thought(m) for m in chat.messages])
        answer, before = chat.messages[found.answer], silent.messages[: found.answer]
        longer = msgspec.structs.replace(answer, reasoning=(answer.reasoning or "") + thoughts.LETTER)
        closing, renders = await asyncio.gather(
            self._closing(session, url, chat, _before(chat, found), known),
            asyncio.gather(
                self._render(session, msgspec.structs.replace(chat, messages=before)),
                *(
                    self._render(
                        session, msgspec.structs.replace(chat, messages=[*before, end]), add_generation_prompt=False
                    )
                    for end in (answer, longer)
                ),
            ),
        )
        asks, whole, lettered = renders
        if isinstance(closing, Fork):
            return closing
        if not tails.ends(asks, known.opening):
            return Fork.NOT_APPEND_ONLY
        head = asks[: len(asks) - len(known.opening)]
        return thoughts.closed(closing, head, known.opening, context.ids[-context.sampled :], whole, lettered, after)

    # --- renders -----------------------------------------------------------------------------------------------------

    async def _frame(self, session: str, url: str, chat: ChatRequest, before: str, behind: str) -> Frame | Fork:
        """The frame for an answer between messages of two roles; asked once for each engine and its switches."""
        options = options_digest(self._engine.template_options(chat, session))
        key = (url, before == "tool", behind == "tool", options)
        if key in self._frames:
            return self._frames[key]
        asking = tails.asking(before)
        first, second = ([*asking, answer, tails.follower(behind)] for answer in tails.ANSWERS)
        found = tails.frame(
            *await asyncio.gather(
                self._render(session, _bare(chat, asking), add_generation_prompt=False),
                self._render(session, _bare(chat, asking)),
                self._render(session, _bare(chat, first)),
                self._render(session, _bare(chat, second)),
            )
        )
        if isinstance(found, Frame):
            self._frames[key] = found
        return found

    async def _closing(self, session: str, url: str, chat: ChatRequest, before: str, known: Frame) -> Closing | Fork:
        """How thoughts are closed behind a message of a role; asked once for each engine and its switches."""
        options = options_digest(self._engine.template_options(chat, session))
        key = (url, before == "tool", options)
        if key in self._closings:
            return self._closings[key]
        ends = [_bare(chat, [*tails.asking(before), end]) for end in (*thoughts.THOUGHTS, *tails.ANSWERS)]
        renders = await asyncio.gather(*(self._render(session, end, add_generation_prompt=False) for end in ends))
        found = thoughts.closing(known.lead, *renders)
        if isinstance(found, Closing):
            self._closings[key] = found
        return found

    async def _render(self, session: str, chat: ChatRequest, *, add_generation_prompt: bool = True) -> Ids:
        ids = await self._engine.render(chat, add_generation_prompt=add_generation_prompt, session=session)
        return np.array(ids, np.int32)


async def _nothing() -> None:
    """In the place of renders that can wait."""


def _before(chat: ChatRequest, found: Step) -> str:
    """The role of the message that the answer was sampled behind."""
    return chat.messages[found.answer - 1].role


def _bare(chat: ChatRequest, messages: list[Message]) -> ChatRequest:
    """A short conversation under the same switches. Without tools: they stand before it and may be long."""
    return ChatRequest(model=chat.model, messages=messages, thinking=chat.thinking, effort=chat.effort)


def _upto(chat: ChatRequest, count: int) -> ChatRequest:
    return msgspec.structs.replace(chat, messages=chat.messages[:count])


def _without_thought(message: Message) -> Message:
    return msgspec.structs.replace(message, reasoning=None) if message.reasoning else message
