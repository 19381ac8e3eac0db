"""The control host as its clients see it: sessions and rewards of a running proxy (DESIGN §4), over `requests`."""

import socket
from typing import Any

import requests
import requests.adapters

from polar_capture.exits import Failure

PROXIED = "http://polar.capture"
"""The control host's name inside a proxy: it answers by itself, no name server knows it."""

PATIENCE = 20.0


class _AtOnce(requests.adapters.HTTPAdapter):
    """Sends small bodies to a proxy at once: urllib3 leaves Nagle's algorithm on there, which costs 40 ms a request."""

    def proxy_manager_for(self, proxy: str, **settings: Any) -> Any:
        return super().proxy_manager_for(
            proxy, socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)], **settings
        )


class Refused(Failure):
    """The control host wants another token."""


class ControlClient:
    """One running proxy's control host. `base` is its URL; `proxy` the proxy to reach it through, if any.

    Every method raises Failure when it cannot be reached or says no.
    """

    def __init__(self, base: str, token: str | None, *, proxy: str | None = None) -> None:
        self._base = base.rstrip("/")
        self._shown = proxy.rpartition("@")[2] if proxy else self._base
        self._http = requests.Session()
        # The environment may name the very proxy, or a company's; neither is the way to our own control port.
        self._http.trust_env = False
        if proxy:
            self._http.proxies = {"http": proxy}
            self._http.mount("http://", _AtOnce())
        if token:
            self._http.headers["Authorization"] = f"Bearer {token}"

    def health(self) -> dict[str, Any]:
        return self._object("GET", "/health")

    def ca_pem(self) -> str:
        """The proxy's CA certificate, PEM."""
        return self._send("GET", "/ca.pem").text

    def open_session(self, session: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Create a session or take it up again, with `task_id`, `group_id`, `metadata`, …"""
        return self._object("POST", "/sessions", {"id": session, **fields})

    def change_session(self, session: str, fields: dict[str, Any]) -> dict[str, Any]:
        return self._object("PATCH", f"/sessions/{session}", fields)

    def session(self, session: str) -> dict[str, Any]:
        return self._object("GET", f"/sessions/{session}")

    def give_reward(self, session: str, row: dict[str, Any]) -> str:
        """Record a reward (`value`, `name`, `call_id`, `source`, `comment`); its id."""
        return str(self._object("POST", f"/sessions/{session}/rewards", row)["id"])

    def know_siblings(self, controls: list[str]) -> None:
        """Tell a worker the control ports of the other workers of its `serve`."""
        self._object("POST", "/siblings", {"controls": controls})

    def metrics(self) -> str:
        """The proxy's counters in Prometheus' text format."""
        return self._send("GET", "/metrics").text

    def live(self) -> list[dict[str, Any]]:
        """What the sessions of the proxy are doing (`live.LiveSessions.rows`)."""
        return list(self._send("GET", "/live").json())

    def _object(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        response = self._send(method, path, body)
        try:
            value = response.json()
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise Failure(f"{self._shown} is no polar-capture proxy: {method} {path} gave {response.text[:80]!r}")
        return value

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> requests.Response:
        try:
            response = self._http.request(method, self._base + path, json=body, timeout=PATIENCE)
        except requests.RequestException as error:
            raise Failure(
                f"no proxy answers at {self._shown} ({type(error).__name__}): start `polar-capture serve`, or "
                "name another with --proxy (POLAR_PROXY); `run` and `rollout` without it start a private one"
            ) from error
        if response.status_code == 401:
            raise Refused(
                f"the proxy at {self._shown} refuses the control token: set POLAR_CONTROL_TOKEN to the one that it "
                "was started with, or name its folder with --home"
            )
        if response.status_code == 407:
            raise Failure(f"the proxy at {self._shown} asks for a key: give --key (POLAR_KEY)")
        if not response.ok:
            said = f"{response.status_code}: {response.text[:300]}"
            raise Failure(f"the proxy at {self._shown} answered {method} {path} with {said}")
        return response
