"""One proxy and one Node process for the whole suite."""

from collections.abc import Iterator

import pytest

from tests.sdk.javascript import Node
from tests.sdk.stage import Stage, staged


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    with staged() as running:
        yield running


@pytest.fixture(scope="session")
def node(stage: Stage) -> Iterator[Node]:
    running = Node(stage.proxy, stage.process.ca)
    yield running
    running.stop()
