"""The floor of the benchmark: mitmproxy and the same in-process hop, with nothing understood, kept or made.

    python -m tests.bench.bare_relay --upstream URL --home FOLDER

A client's request goes through mitmproxy to an aiohttp server in its process, which posts the same bytes to `upstream`
and hands on what comes back. What our proxy costs beyond this is what capturing costs. Prints `ready {"proxy": URL}`.
"""

import argparse
import asyncio
import json
import sys

import aiohttp
from aiohttp import web
from mitmproxy import http, options
from mitmproxy.tools.dump import DumpMaster


class Relay:
    """Re-targets every request to its own server."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._port = 0

    async def listen(self) -> None:
        self._client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
        runner = web.ServerRunner(web.Server(self._serve, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._port = runner.addresses[0][1]

    def request(self, flow: http.HTTPFlow) -> None:
        flow.request.scheme, flow.request.host, flow.request.port = "http", "127.0.0.1", self._port

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        if flow.response is not None:
            flow.response.stream = True

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.content.read()
        headers = {"content-type": "application/json"}
        async with self._client.post(f"{self._upstream}/v1/chat/completions", data=body, headers=headers) as answer:
            response = web.Response(body=await answer.read(), content_type="application/json")
        await response.prepare(request)
        await response.write_eof()
        return response


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--upstream", required=True)
    arguments.add_argument("--home", required=True)
    chosen = arguments.parse_args()
    relay = Relay(chosen.upstream)
    settings = options.Options(mode=["regular@127.0.0.1:0"], confdir=chosen.home)
    master = DumpMaster(settings, with_termlog=False, with_dumper=False)
    master.addons.add(relay)
    settings.update(connection_strategy="lazy", upstream_cert=False, http2=False)
    await relay.listen()
    running = asyncio.create_task(master.run())
    while not (listening := master.addons.get("proxyserver").listen_addrs()):
        if running.done():
            sys.exit("the bare relay did not start")
        await asyncio.sleep(0.05)
    host, port = listening[0][:2]
    ca = f"{chosen.home}/mitmproxy-ca-cert.pem"
    print("ready " + json.dumps({"proxy": f"http://{host}:{port}", "ca": ca}), flush=True)
    await running


if __name__ == "__main__":
    asyncio.run(main())
