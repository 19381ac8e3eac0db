"""Builders for tests of the engine client."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from polar_capture.chat import ChatRequest, Message, Sampling
from polar_capture.engine.client import Engine
from polar_capture.faults import CallError, Fault
from tests.double import Double


def chat(text: str = "hi", **sampling) -> ChatRequest:
    return ChatRequest(messages=[Message("user", text)], sampling=Sampling(**sampling))


@contextlib.asynccontextmanager
async def engine_on(*doubles: Double, **options) -> AsyncIterator[Engine]:
    """An engine that has not looked at its servers: the doubles' scripts are all for the test."""
    engine = Engine([double.url for double in doubles], **options)
    try:
        yield engine
    finally:
        await engine.close()


async def fault_from(engine: Engine, request: ChatRequest | None = None, **options) -> Fault:
    with pytest.raises(CallError) as caught:
        await engine.generate(request or chat(), **options)
    return caught.value.fault


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for something that happens in this loop."""
    for _ in range(int(seconds * 100)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")
