"""`serve --workers N`: N proxies on N ports, because one process uses one core. Each session stays with one of them."""

import concurrent.futures
import os
import signal
import sys
import threading
from collections.abc import Callable

import msgspec

from polar_capture.config import ServeConfig
from polar_capture.control_client import ControlClient
from polar_capture.exits import Exit, Failure
from polar_capture.launch import ProxyProcess, start_proxy
from polar_capture.ready import Ready

Start = Callable[[ServeConfig], ProxyProcess]

LOOK_SECONDS = 0.5
"""How often we look whether a worker has died."""


def configs(config: ServeConfig) -> list[ServeConfig]:
    """The configuration of each worker: ports count up from the given ones, 0 stays 0 (a free one)."""

    def nth(port: int | None, number: int) -> int | None:
        return port + number if port else port

    return [
        msgspec.structs.replace(
            config,
            workers=1,
            port=nth(config.port, number),
            control_port=nth(config.control_port, number),
            gateway_port=nth(config.gateway_port, number),
        )
        for number in range(config.workers)
    ]


def serve_all(config: ServeConfig, start: Start | None = None) -> int:
    """Run all workers until SIGINT or SIGTERM; the exit status. Prints one ready line when every worker is ready.

    A worker that dies ends them all: a part of the sessions would find no proxy.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    begin = start or (lambda one: start_proxy(one, None, os.environ))
    running: list[ProxyProcess] = []
    status = Exit.OK
    try:
        first, *others = configs(config)
        # The first makes the database's schema; the rest then start side by side.
        running.append(begin(first))
        with concurrent.futures.ThreadPoolExecutor(len(others)) as pool:
            starts = [pool.submit(begin, one) for one in others]
            concurrent.futures.wait(starts)
        running += [done.result() for done in starts if done.exception() is None]
        for done in starts:
            done.result()
        _introduce([worker.ready for worker in running], config.control_token)
        print(_ready([worker.ready for worker in running]).line(), flush=True)
        while not stop.wait(LOOK_SECONDS):
            for worker in running:
                died = worker.died()
                if died is not None:
                    raise Failure(
                        f"worker {worker.ready.proxy} ended with status {died}: stopping the others", Exit.FAULT
                    )
    finally:
        status = _stop(running)
    return status


def _introduce(each: list[Ready], token: str | None) -> None:
    """Tell every worker of the others, so that a new policy version or a pause said to one holds for all."""
    if token is None:  # then the guarded pages are closed, and nobody can say such a thing
        return
    for one in each:
        others = [other.control for other in each if other is not one]
        ControlClient(one.control, token).know_siblings(others)


def _ready(each: list[Ready]) -> Ready:
    return msgspec.structs.replace(each[0], pid=os.getpid(), workers=[ready.proxy for ready in each])


def _stop(running: list[ProxyProcess]) -> Exit:
    """Drain all at once; FAULT where one did not end well."""
    if not running:
        return Exit.OK
    with concurrent.futures.ThreadPoolExecutor(len(running)) as pool:
        stops = [pool.submit(worker.stop) for worker in running]
    failed = False
    for worker, done in zip(running, stops, strict=True):
        problem = done.exception() or (done.result() and f"ended with status {done.result()}")
        if problem:
            failed = True
            print(f"polar-capture: worker {worker.ready.proxy}: {problem}", file=sys.stderr)
    return Exit.FAULT if failed else Exit.OK
