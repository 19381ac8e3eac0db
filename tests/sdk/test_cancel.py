"""A client that leaves, in every way it can ask: the engine's work is given up, and the record says so."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.sdk.clients import PYTHON, WAYS, Way
from tests.sdk.javascript import Node
from tests.sdk.scenarios import Asked
from tests.sdk.stage import Stage

PATIENCE = 4.0
"""Seconds after which clients with a time-out leave; the engine would take two minutes."""


def leave(stage: Stage, node: Node, way: Way) -> None:
    """Ask and go away: by time-out, by cancelling a task, or by an AbortSignal."""
    asked, session = Asked("slow", mark=f"{way}-leaves"), f"{way}-leaves"
    if way.language == "javascript":
        result = node.run({"job": "ask", "session": session, **way.job(asked), "leaves_after": PATIENCE * 1000})
        assert "error" in result
    elif way.language == "python-async":
        asyncio.run(cancelled(stage, way, session, asked))
    else:
        with pytest.raises(Exception, match=r"(?i)time"):
            way.ask(stage, node, session, asked, timeout=PATIENCE)


async def cancelled(stage: Stage, way: Way, session: str, asked: Asked) -> None:
    """Ask in a task, and cancel it once the engine is at work."""
    asking = asyncio.create_task(PYTHON[way.api].asynchronous(stage, session, asked, way.streams))
    await asyncio.to_thread(stage.asked_for, asked.mark)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


@pytest.fixture(scope="module")
def all_left(stage: Stage, node: Node) -> None:
    """Every client has asked and left; at once, since each of them waits."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda way: leave(stage, node, way), WAYS))


@pytest.mark.usefixtures("all_left")
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_o_transport_05_the_engine_is_freed_when_the_client_leaves(stage: Stage, way: Way) -> None:
    assert stage.left(stage.asked_for(f"{way}-leaves"))
    (row,) = stage.calls(f"{way}-leaves")
    assert (row["status"], row["trainable"], row["reason"]) == ("aborted", False, "aborted")
    assert row["completion_ids"] is None
