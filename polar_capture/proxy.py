"""`serve`: mitmproxy embedded, with our addon, our log and our exit statuses."""

import asyncio
import logging
import os
import runpy
import signal
import socket
import sys
from typing import Any

from mitmproxy import options
from mitmproxy.tools.web.master import WebMaster
from sqlalchemy.engine import make_url

from polar_capture import addon_options, resources
from polar_capture.config import ServeConfig
from polar_capture.exits import Exit
from polar_capture.home import Home
from polar_capture.master import ProxyMaster
from polar_capture.ready import Ready

log = logging.getLogger("polar_capture")


def serve(config: ServeConfig) -> int:
    """Run the proxy until SIGINT or SIGTERM; the exit status. Prints the ready line on stdout, all else on stderr."""
    _log_to_stderr()
    taken = _port_taken(config.host, config.port)
    if taken is not None:
        log.error(
            "port %d on %s cannot be used: %s; choose another with --port, or 0 for a free one",
            config.port,
            config.host,
            taken,
        )
        return Exit.FAULT
    Home(config.home).make_ca()
    addon = runpy.run_path(str(resources.addon_script()))["addons"][0]
    return asyncio.run(_serve(config, addon))


async def _serve(config: ServeConfig, addon: Any) -> int:
    settings = options.Options(
        mode=[f"regular@{config.host}:{config.port}"], confdir=str(Home(config.home).confdir), listen_host=config.host
    )
    if config.web:
        # The standard port is a wish: a second proxy on this machine takes a free one.
        port = 8081 if _port_taken("127.0.0.1", 8081) is None else _free_port()
        master: ProxyMaster | WebMaster = WebMaster(settings, with_termlog=False)
        # It would end the process with status 1 for any error logged at the start, ours included.
        master.addons.remove(master.addons.get("errorcheck"))
        settings.update(web_open_browser=False, web_host="127.0.0.1", web_port=port)
    else:
        master = ProxyMaster(settings)
    master.addons.add(addon)
    settings.update(**addon_options.values(config))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, master.shutdown)
    running = asyncio.create_task(master.run())
    ready = asyncio.create_task(addon.ready.wait())
    await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
    if addon.runtime is not None and addon.failure is None and not running.done():
        print(_ready(config, addon.runtime, master).line(), flush=True)
    ready.cancel()
    await running
    return addon.failure or Exit.OK


def _ready(config: ServeConfig, runtime, master) -> Ready:
    web = None
    if config.web:
        web = master.addons.get("webaddon") and f"http://127.0.0.1:{master.options.web_port}"
        web = getattr(master, "web_url", web)
    gateway = None if runtime.gateway_port is None else f"http://{config.host}:{runtime.gateway_port}"
    return Ready(
        proxy=runtime.proxy_url,
        control=f"http://127.0.0.1:{runtime.control_port}",
        ca=str(Home(config.home).ca),
        db=make_url(config.db).render_as_string(hide_password=True),
        gateway=gateway,
        web=web,
        pid=os.getpid(),
    )


def _port_taken(host: str, port: int) -> OSError | None:
    """Why a port can't be listened on; None when it can. mitmproxy itself would log it and run on without a
    listener."""
    if port == 0:
        return None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    log.setLevel(logging.INFO)
