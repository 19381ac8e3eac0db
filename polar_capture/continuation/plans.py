"""How a call is to be sampled, and sampling it while the last of the plan is proved."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from polar_capture.continuation.asked import Asked
from polar_capture.continuation.reasons import Fork
from polar_capture.continuation.tails import Ids
from polar_capture.faults import CallError

log = logging.getLogger(__name__)

Check = Callable[[], Awaitable[Ids | Fork]]
T = TypeVar("T")


class Plan(msgspec.Struct, frozen=True):
    """How a call is to be sampled.

    `outcome` is the value of `calls.continuation`, if the engine does as planned; `prompt_ids` what it is sent, None
    for a plain render; `plain` that render, where it was asked for. `check` is what is left to prove, and may be done
    while the engine samples: it gives `plain`, or why the ids are not to be used; it raises CallError.
    """

    outcome: str
    prompt_ids: list[int] | None = None
    asked: Asked | None = None
    plain: Ids | None = None
    check: Check | None = None


async def checked(plan: Plan) -> Plan:
    """The plan with nothing left to prove: the same, or a fork."""
    if plan.check is None:
        return plan
    try:
        plain = await plan.check()
    except CallError as error:
        log.warning("the engine gave no render: %s", error.fault.message)
        plain = Fork.RENDER_FAILED
    if isinstance(plain, Fork):
        return Plan(plain.stored, asked=plan.asked)
    return Plan(plan.outcome, plan.prompt_ids, plan.asked, plain)


async def sampled(plan: Plan, generate: Callable[[list[int] | None], Awaitable[T]]) -> tuple[Plan, T]:
    """Sample as planned, and prove the plan meanwhile: `generate` gets the ids, None for a plain render.

    What is sampled from ids that prove wrong is thrown away, and the call sampled anew. Raises what `generate` does.
    """
    if plan.check is None:
        return plan, await generate(plan.prompt_ids)
    work = asyncio.ensure_future(generate(plan.prompt_ids))
    try:
        settled = await checked(plan)
        if settled.prompt_ids is not None:
            return settled, await work
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)  # what became of it is nobody's business
        return settled, await generate(None)
    finally:
        work.cancel()
