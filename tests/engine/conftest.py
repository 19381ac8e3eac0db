"""The real vLLMs for all tests in this folder: POLAR_ENGINE_URL's and POLAR_ROLES_URL's, else some of our own (`make
engine` first)."""

from collections.abc import Iterator

import pytest

from tests.engine.continuation_stage import roles_engine
from tools.engine.serve import Running, engine


@pytest.fixture(scope="session")
def vllm() -> Iterator[str]:
    """The base URL."""
    with engine() as running:
        yield running.url


@pytest.fixture(scope="session")
def roles() -> Iterator[Running]:
    """A second one, which takes its template from the request, with `--enable-scale-out`."""
    with roles_engine() as running:
        yield running
