"""One browser for the whole stage; a page's console complaints are each test's own."""

from collections.abc import Iterator

import pytest

from tests.browser.browsing import Browser, browser


@pytest.fixture(scope="session")
def _window() -> Iterator[Browser]:
    with browser() as window:
        yield window


@pytest.fixture
def window(_window: Browser) -> Iterator[Browser]:
    _window.open("about:blank")
    _window.errors()
    yield _window
    assert _window.errors() == []
