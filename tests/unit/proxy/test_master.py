"""The embedded mitmproxy's hooks: who listens is called, in order; a fault of one is not the others' fault."""

import asyncio
import logging
import runpy
import socket

import pytest
from mitmproxy import exceptions, options
from mitmproxy.hooks import UpdateHook
from mitmproxy.proxy.layers.http import HttpRequestHook
from mitmproxy.test import tflow

from polar_capture import addon_options, resources
from polar_capture.config import ServeConfig
from polar_capture.exits import Exit
from polar_capture.home import Home
from polar_capture.master import ProxyMaster
from tests.double import Double


class Listener:
    def __init__(self, name: str, heard: list[str], fault: Exception | None = None) -> None:
        self.name, self._heard, self._fault = name, heard, fault

    def request(self, flow) -> None:
        self._heard.append(self.name)
        if self._fault is not None:
            raise self._fault


class AsyncListener(Listener):
    async def request(self, flow) -> None:
        super().request(flow)


class Updated:
    def __init__(self, heard: list[str]) -> None:
        self._heard = heard

    def update(self, flows) -> None:
        self._heard.append("update")


@pytest.fixture
async def addons(tmp_path):
    return ProxyMaster(options.Options(confdir=str(tmp_path))).addons


async def heard_by(addons, heard: list[str]) -> list[str]:
    heard.clear()
    await addons.handle_lifecycle(HttpRequestHook(tflow.tflow()))
    return list(heard)


async def test_listeners_are_called_in_order_and_waited_for(addons):
    heard: list[str] = []
    addons.add(Listener("a", heard), AsyncListener("b", heard), Listener("c", heard))
    assert await heard_by(addons, heard) == ["a", "b", "c"]


async def test_a_fault_is_logged_and_the_next_one_is_called(addons, caplog):
    heard: list[str] = []
    addons.add(Listener("a", heard, ValueError("broken")), Listener("b", heard))
    with caplog.at_level(logging.ERROR):
        assert await heard_by(addons, heard) == ["a", "b"]
    assert "Addon error: broken" in caplog.text


async def test_a_halt_ends_the_hook(addons):
    heard: list[str] = []
    addons.add(Listener("a", heard, exceptions.AddonHalt()), Listener("b", heard))
    assert await heard_by(addons, heard) == ["a"]


async def test_who_comes_or_goes_later_is_known(addons):
    heard: list[str] = []
    first, second = Listener("a", heard), Listener("b", heard)
    addons.add(first)
    assert await heard_by(addons, heard) == ["a"]
    addons.add(second)
    assert await heard_by(addons, heard) == ["a", "b"]
    addons.remove(first)
    assert await heard_by(addons, heard) == ["b"]


async def test_an_update_follows_only_for_those_who_want_it(addons):
    heard: list[str] = []
    addons.add(Listener("a", heard))
    assert await heard_by(addons, heard) == ["a"]
    addons.add(Updated(heard))
    assert await heard_by(addons, heard) == ["a", "update"]
    await addons.trigger_event(UpdateHook([tflow.tflow()]))
    assert heard == ["a", "update", "update"]


async def test_a_sub_addon_listens_too(addons):
    heard: list[str] = []
    parent = Listener("a", heard)
    parent.addons = [Listener("child", heard)]
    addons.add(parent)
    assert await heard_by(addons, heard) == ["a", "child"]


async def test_a_port_that_is_taken_after_all_ends_the_start(tmp_path):
    """`serve` looks before, but another process may be quicker."""
    home = Home(tmp_path / "home")
    home.make_ca()
    async with Double() as vllm:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            master = ProxyMaster(options.Options(mode=[f"regular@127.0.0.1:{port}"], confdir=str(home.confdir)))
            addon = runpy.run_path(str(resources.addon_script()))["addons"][0]
            master.addons.add(addon)
            given = ServeConfig(upstreams=(vllm.url,), home=home.path, db=f"sqlite:///{tmp_path}/polar.db")
            master.options.update(**addon_options.values(given))
            await asyncio.wait_for(master.run(), 30)
    assert addon.failure is Exit.FAULT
