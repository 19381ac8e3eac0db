"""The other workers of one `serve --workers N`: what one worker's control host is told about all holds for all.

The starter tells each worker where the others' control ports are (POST /siblings), once all are up. A worker that is
told something by the trainer passes it on before it answers; what a sibling passes on goes no further.
"""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

PASSED_ON = "x-polar-passed-on"
"""Header of a request that comes from a sibling."""

PATIENCE = 20.0
"""Seconds for a sibling to answer."""


class SiblingError(Exception):
    """A sibling did not do what this worker has done; the message says which and why."""


class Others(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /siblings: URLs of the other workers' control ports, `http://127.0.0.1:8091`."""

    controls: list[str]

    def __post_init__(self) -> None:
        for url in self.controls:
            parts = urlsplit(url)
            if parts.scheme != "http" or parts.hostname != "127.0.0.1" or not parts.port:
                raise ValueError(f"{url!r} is no control port of a worker on this machine")


class Siblings:
    """Passes requests on. Without siblings it does nothing."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        self._controls: list[str] = []

    def know(self, others: Others) -> dict[str, Any]:
        self._controls = list(others.controls)
        return {"siblings": len(self._controls)}

    async def pass_on(self, method: str, path: str, body: bytes) -> list[dict[str, Any]]:
        """What each sibling answered. SiblingError where one did not do it; the others may have."""
        if not self._controls:
            return []
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json", PASSED_ON: "1"}
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(headers=headers, timeout=timeout, trust_env=False) as http:
            return await asyncio.gather(*(self._one(http, method, url, path, body) for url in self._controls))

    async def _one(self, http: aiohttp.ClientSession, method: str, url: str, path: str, body: bytes) -> dict[str, Any]:
        again = "say it again once all workers are well"
        try:
            async with http.request(method, url + path, data=body) as response:
                told: dict[str, Any] = await response.json(content_type=None)
                if response.status >= 400:
                    raise SiblingError(f"worker {url} refused {method} {path}: {told.get('error')}; {again}")
                return told
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise SiblingError(
                f"worker {url} did not take {method} {path} ({type(error).__name__}); {again}"
            ) from error
