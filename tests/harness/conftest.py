"""POLAR_TEST_HARNESS=NAME runs one harness; without it `make test` runs the four of the reference, the rest is slow."""

import os
from typing import Any

import pytest

from polar_capture.harnesses import presets, versions
from tests.harness.matrix import ALL, REFERENCE


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = os.environ.get("POLAR_TEST_HARNESS")
    kept, dropped = [], []
    for item in items:
        harness = _parameters(item).get("harness")
        if harness and harness not in REFERENCE:
            item.add_marker(pytest.mark.slow)
        (dropped if wanted and harness and harness != wanted else kept).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install what the chosen tests start, once and with this shell's own settings for the registries: the tests' clean
    environment has none of them."""
    if session.config.option.collectonly:
        return
    wanted = {params["harness"] for item in session.items if "harness" in (params := _parameters(item))}
    if any("beyond_the_limits" in item.name for item in session.items):  # the silence of all at once
        wanted |= {os.environ["POLAR_TEST_HARNESS"]} if os.environ.get("POLAR_TEST_HARNESS") else set(ALL)
    for name in sorted(wanted):
        preset = presets.get(name)
        versions.install(preset, versions.chosen(preset))


def _parameters(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else callspec.params
