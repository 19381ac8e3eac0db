"""One real vLLM for all tests in this folder: POLAR_ENGINE_URL's, else one of our own (`make engine` first)."""

from collections.abc import Iterator

import pytest

from tools.engine.serve import engine


@pytest.fixture(scope="session")
def vllm() -> Iterator[str]:
    """The base URL."""
    with engine() as running:
        yield running.url
