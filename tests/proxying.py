"""A real proxy in a test's own event loop: mitmproxy with our addon on a free port, a fresh home and database."""

import asyncio
import contextlib
import runpy
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
from mitmproxy import options

from polar_capture import addon_options, config, resources
from polar_capture import store as stores
from polar_capture.home import Home
from polar_capture.master import ProxyMaster
from polar_capture.runtime import Runtime

TOKEN = "control-token-of-the-tests"


class Proxy:
    """One running proxy. `post` and `get` go through it as session `session`."""

    def __init__(self, addon: Any, runtime: Runtime, folder: Path, client: aiohttp.ClientSession) -> None:
        self.addon = addon
        self.runtime = runtime
        self.folder = folder
        self.client = client
        self.ca = Home(folder / "home").ca
        self.ssl = ssl.create_default_context(cafile=str(self.ca))
        self.url = runtime.proxy_url

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def via(self, session: str | None = "s1") -> str:
        return self.url.replace("http://", f"http://{session}@") if session else self.url

    def request(self, method: str, url: str, *, session: str | None = "s1", **options: Any):
        return self.client.request(method, url, proxy=self.via(session), ssl=self.ssl, **options)

    async def answer(self, method: str, url: str, **options: Any) -> tuple[int, bytes, dict[str, str]]:
        async with self.request(method, url, **options) as response:
            return response.status, await response.read(), {k.lower(): v for k, v in response.headers.items()}

    async def calls(self, session: str = "s1") -> list[dict[str, Any]]:
        """The rows of a session, unpacked, once everything submitted so far is committed."""
        await settle(self.runtime)

        def read() -> list[dict[str, Any]]:
            store = stores.open(self.runtime.config.db, create=False)
            try:
                return [store.call(row["id"]) for row in store.calls(session)]
            finally:
                store.close()

        return await asyncio.to_thread(read)


async def settle(runtime: Runtime) -> None:
    """Wait until the hooks' last amendments are in the database."""
    await asyncio.sleep(0.05)
    await asyncio.wrap_future(runtime.writer.amend("no-call", {}))


@contextlib.asynccontextmanager
async def proxy(upstream: str, *, grace: float = 2.0, **settings: Any) -> AsyncIterator[Proxy]:
    """`settings` are fields of ServeConfig."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = Home(folder / "home")
        home.make_ca()
        wanted = config.ServeConfig(
            upstreams=tuple(upstream.split()),
            home=home.path,
            db=settings.pop("db", f"sqlite:///{folder}/polar.db"),
            control_token=TOKEN,
            header_grace=grace,
            **settings,
        )
        mitm = options.Options(mode=["regular@127.0.0.1:0"], confdir=str(home.confdir))
        master = ProxyMaster(mitm)
        addon = runpy.run_path(str(resources.addon_script()))["addons"][0]
        master.addons.add(addon)
        mitm.update(**addon_options.values(wanted))
        running = asyncio.create_task(master.run())
        try:
            async with asyncio.timeout(20):
                await addon.ready.wait()
            if addon.failure is not None:
                raise RuntimeError(f"the proxy did not start: exit status {addon.failure}")
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(60)) as client:
                yield Proxy(addon, addon.runtime, folder, client)
        finally:
            master.shutdown()
            await running
