"""polar_capture inside mitmproxy: `mitmdump -s addons/capture.py --set polar_upstream=http://127.0.0.1:8000`.

Hooks and options only; what they do is `polar_capture.runtime`. `running` and `done` are async, so mitmproxy's hot
reload of this script does not work: restart it instead.
"""

import asyncio
import base64
import binascii
import hmac
import logging
import runpy
from collections.abc import Sequence
from pathlib import Path

from mitmproxy import connection, ctx, exceptions, http, tls
from mitmproxy.proxy import server_hooks

from polar_capture import addon_options, backlog
from polar_capture.config import SESSION_ID, ConfigError
from polar_capture.dialects import registry
from polar_capture.egress import CONTROL_HOST, Verdict, is_local_address
from polar_capture.engine.probe import ModelNotServed, NoTokenIds
from polar_capture.exits import Exit
from polar_capture.faults import Fault, FaultKind
from polar_capture.home import HomeError
from polar_capture.origin import Origin
from polar_capture.runtime import Runtime
from polar_capture.server import FLOW_HEADER
from polar_capture.store import DatabaseError
from polar_capture.tls_advice import advice

log = logging.getLogger("polar_capture")

DEFAULTS = {
    # mitmproxy must never dial out by itself, h2 clients would be held to 5 calls at once, and silence is normal here.
    "connection_strategy": "lazy",
    "upstream_cert": False,
    "http2": False,
    "http3": False,
    "onboarding": False,
    "tcp_timeout": 7200,
}
FORBIDDEN = ("stream_large_bodies", "emudhra", "emudhra_old")


class Capture:
    """One proxy's hooks. `failure` is the exit status when it could not start."""

    def __init__(self) -> None:
        self.runtime: Runtime | None = None
        self.ready = asyncio.Event()
        self.failure: Exit | None = None
        self._refused: str | None = None
        self._users: dict[str, str] = {}
        self._bodies: dict[str, tuple[bytes, str | None, str | None]] = {}
        self._dialing: set[tuple[str, int]] = set()
        viewing = runpy.run_path(str(Path(__file__).with_name("contentview.py")))["Viewing"]
        self.viewing = viewing(lambda: self.runtime)
        self.addons = [self.viewing]

    # --- options and life cycle --------------------------------------------------------------------------------------

    def load(self, loader) -> None:
        for option in addon_options.OPTIONS:
            loader.add_option(option.name, option.kind, option.default, option.help)
        ctx.options.update_defer(**DEFAULTS)

    def configure(self, updated: set[str]) -> None:
        self._refused = self._complaint()
        # While the script is loaded, mitmproxy would print our message with a traceback: `running` says it then.
        if self._refused is not None and self.runtime is not None:
            raise exceptions.OptionsError(self._refused)

    def _complaint(self) -> str | None:
        for name in FORBIDDEN:
            if getattr(ctx.options, name, None):
                return f"{name} cannot be used with polar_capture: unset it"
        try:
            addon_options.config(ctx.options)
        except (ConfigError, HomeError) as error:
            return str(error)
        return None

    async def running(self) -> None:
        if self.runtime is not None or self.failure is not None:
            return
        if self._refused is not None:
            self._fail(Exit.USAGE, self._refused)
            self.ready.set()
            return
        try:
            self.runtime = Runtime(addon_options.config(ctx.options))
            ctx.options.update(allow_hosts=self.runtime.egress.allow_hosts())
            await self.runtime.start()
            proxyserver = ctx.master.addons.get("proxyserver")
            if not backlog.widen(proxyserver):
                raise OSError("the proxy's port is not open; the error above says why")
        except NoTokenIds as error:
            self._fail(Exit.NO_IDS, str(error))
        except ModelNotServed as error:
            self._fail(Exit.USAGE, str(error))
        except DatabaseError as error:
            self._fail(Exit.DATABASE, str(error))
        except OSError as error:
            self._fail(Exit.FAULT, f"cannot listen: {error}")
        else:
            host, port = proxyserver.listen_addrs()[0][:2]
            self.runtime.proxy_url = f"http://{host}:{port}"
            self._dialing = {("127.0.0.1", self.runtime.port)}
            self.viewing.watch(self.runtime)
        self.ready.set()

    async def done(self) -> None:
        if self.runtime is not None:
            await self.runtime.stop()

    def _fail(self, status: Exit, message: str) -> None:
        self.failure = status
        log.error("%s", message)
        ctx.master.shutdown()

    # --- connections -------------------------------------------------------------------------------------------------

    async def http_connect(self, flow: http.HTTPFlow) -> None:
        await self.ready.wait()
        refusal = self._credentials(flow) or self._refusal(flow.request.host)
        if refusal is not None:
            flow.response = refusal

    def client_disconnected(self, client: connection.Client) -> None:
        self._users.pop(client.id, None)

    def tls_failed_client(self, data: tls.TlsData) -> None:
        log.warning("%s", advice(data.conn.sni or "a host", data.conn.error or "", self._ca()))

    async def server_connect(self, data: server_hooks.ServerConnectionHookData) -> None:
        """The second lock: whatever went wrong before, no provider and no local port but our own is ever dialled."""
        address = data.server.address
        if address is not None and (address[0], address[1]) in self._dialing:
            return
        host = address[0] if address else ""
        if self.runtime is None or self.runtime.egress.connect(host) is not Verdict.TUNNEL:
            data.server.error = f"polar_capture never connects to {host or 'this'}"
            return
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, address[1] if address else None)
        except OSError:
            return  # the connection attempt itself will say so
        if any(is_local_address(str(info[4][0])) for info in found):
            data.server.error = f"{host} is this machine: refused"

    # --- requests ----------------------------------------------------------------------------------------------------

    async def request(self, flow: http.HTTPFlow) -> None:
        await self.ready.wait()
        if flow.response is not None or flow.error is not None:
            return
        try:
            self._route(flow)
        except Exception:
            log.exception("a fault of ours on %s %s", flow.request.method, flow.request.path)
            fault = Fault(FaultKind.INTERNAL, "polar_capture failed on this request; its log has the details")
            dialect = registry.spokesman(flow.request.path.partition("?")[0], flow.request.pretty_host, {})
            answer = dialect.error(fault)
            flow.response = http.Response.make(answer.status, answer.body, dict(answer.headers))

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        original = flow.metadata.get("polar_url")
        if original is not None and flow.response is not None:
            flow.response.stream = True
            flow.response.headers.pop("server", None)
            # The request has gone out: from here on its address is only for people's eyes.
            flow.request.url = original
            flow.request.headers.pop(FLOW_HEADER, None)
            self._restore_body(flow)

    def response(self, flow: http.HTTPFlow) -> None:
        self._ended(flow, whole=True)

    def error(self, flow: http.HTTPFlow) -> None:
        self._ended(flow, whole=False)

    def websocket_message(self, flow: http.HTTPFlow) -> None:
        # Counted here: of a long socket's messages only the latest are kept.
        if flow.websocket is not None and not flow.websocket.messages[-1].from_client:
            flow.metadata["polar_frames"] = flow.metadata.get("polar_frames", 0) + 1

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        if self.runtime is not None:
            self.runtime.server.socket_ended(flow.id, flow.metadata.get("polar_frames", 0))

    def _restore_body(self, flow: http.HTTPFlow) -> None:
        kept = self._bodies.pop(flow.id, None)
        if kept is None:
            return
        flow.request.raw_content, *fields = kept
        for name, value in zip(("content-length", "transfer-encoding"), fields, strict=True):
            flow.request.headers.pop(name, None)
            if value is not None:
                flow.request.headers[name] = value

    def _ended(self, flow: http.HTTPFlow, *, whole: bool) -> None:
        self._restore_body(flow)
        if self.runtime is not None and "polar_url" in flow.metadata:
            self.runtime.server.flow_ended(flow.id, whole)

    def _route(self, flow: http.HTTPFlow) -> None:
        """Point a provider's request at the gateway; refuse what must not go out; leave the rest."""
        host = flow.request.pretty_host.lower().rstrip(".")
        if flow.client_conn.id not in self._users and flow.request.scheme == "http":
            refusal = self._credentials(flow)
            if refusal is not None:
                flow.response = refusal
                return
        flow.request.headers.pop("proxy-authorization", None)
        if self.runtime is None:
            raise RuntimeError("the gateway is not running")
        egress = self.runtime.egress
        if not egress.intercepts(host):
            flow.response = self._refusal(flow.request.host) or self._refusal(host)
            return
        body = flow.request.raw_content or b""
        origin = Origin(
            host=host,
            connection=flow.client_conn.id.partition("-")[0],
            proxy_user=self._users.get(flow.client_conn.id),
            control=host == CONTROL_HOST,
            flow=flow.id,
            body=body,
        )
        flow.metadata["polar_url"] = flow.request.pretty_url
        headers = flow.request.headers
        headers[FLOW_HEADER] = self.runtime.server.expect(flow.id, origin)
        if body:
            # Sending 200 KB through the loopback costs as much as answering; `responseheaders` puts it back for
            # display.
            self._bodies[flow.id] = (body, headers.get("content-length"), headers.get("transfer-encoding"))
            flow.request.raw_content = b""
            headers["content-length"] = "0"
            headers.pop("transfer-encoding", None)
        flow.request.scheme, flow.request.host, flow.request.port = "http", "127.0.0.1", self.runtime.port

    # --- small decisions ---------------------------------------------------------------------------------------------

    def _credentials(self, flow: http.HTTPFlow) -> http.Response | None:
        """Bind the proxy user to the connection; a response where the credentials are refused."""
        user, password = parse_basic(flow.request.headers.get("proxy-authorization", ""))
        key = self.runtime.config.key if self.runtime else None
        if key is not None and not hmac.compare_digest(password.encode(), key.encode()):
            return http.Response.make(
                407,
                b"polar_capture: this proxy wants HTTPS_PROXY=http://SESSION:KEY@host:port\n",
                {"proxy-authenticate": 'Basic realm="polar_capture"', "content-type": "text/plain"},
            )
        if user and SESSION_ID.fullmatch(user) is None:
            text = f"polar_capture: session id {user!r}: use 1 to 128 of A-Z a-z 0-9 . _ -\n"
            return http.Response.make(400, text.encode(), {"content-type": "text/plain"})
        if user:
            self._users[flow.client_conn.id] = user
        return None

    def _refusal(self, host: str) -> http.Response | None:
        if self.runtime is None:
            return http.Response.make(503, b"polar_capture is starting\n", {"content-type": "text/plain"})
        if self.runtime.egress.connect(host) is not Verdict.REFUSE:
            return None
        text = f"polar_capture does not connect to {host}\n"
        return http.Response.make(403, text.encode(), {"content-type": "text/plain"})

    def _ca(self) -> str:
        return f"{ctx.options.confdir}/mitmproxy-ca-cert.pem"


def parse_basic(header: str) -> tuple[str, str]:
    """User and password of a Basic credential (RFC 7617); ("", "") for anything else."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return user, password


addons: Sequence[object] = [Capture()]
