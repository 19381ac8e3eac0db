"""Whose call is it, on the capture path: the claims of a request, and the session's row before the call's."""

import logging

from polar_capture import sessions
from polar_capture.call import Call
from polar_capture.chains import Chains
from polar_capture.dialects.base import ParsedCall, WireRequest
from polar_capture.faults import CallError, Fault, FaultKind
from polar_capture.origin import Origin
from polar_capture.outcomes import Warning
from polar_capture.sessions import Carrier, Claims
from polar_capture.store.records import Recorder, SessionRecord

log = logging.getLogger(__name__)


class Attribution:
    """Names the session of each call, in the order of DESIGN §5. `strict` refuses calls that nothing names."""

    def __init__(self, chains: Chains, recorder: Recorder, *, strict: bool) -> None:
        self._chains = chains
        self._recorder = recorder
        self._strict = strict

    async def name(self, parsed: ParsedCall, wire: WireRequest, origin: Origin) -> sessions.Named:
        """The session of a request and what named it. Raises CallError for a nameless one where that is refused."""
        claims = Claims(
            proxy_user=origin.proxy_user,
            header=wire.headers.get("x-polar-session"),
            gateway_path=origin.gateway_path,
            gateway_key=origin.gateway_key,
            harness=parsed.hints.session,
            connection=origin.connection,
        )
        named = sessions.name(claims)
        if named.carrier in (Carrier.HARNESS, Carrier.CONNECTION):
            echoed = [i for message in parsed.chat.messages for i in message.echo]
            minted_in = await self._chains.session_of_ids(echoed) if echoed else None
            if minted_in is not None:
                return sessions.Named(minted_in, Carrier.MINTED_ID)
        if named.carrier is Carrier.CONNECTION and self._strict:
            raise CallError(
                Fault(
                    FaultKind.PERMISSION,
                    "no session named this call and the proxy runs with --strict-sessions: set "
                    "HTTPS_PROXY=http://SESSION@HOST:PORT or the header x-polar-session",
                )
            )
        return named

    def announce(self, call: Call, carrier: Carrier) -> None:
        """Make sure that the session's row is there before the call's."""
        hints, session = call.parsed.hints, call.session
        if carrier is Carrier.CONNECTION:
            call.warnings = [*call.warnings, Warning.UNATTRIBUTED]
            log.warning("a call of no known session goes to %s: name one in HTTPS_PROXY=http://SESSION@…", session.id)
        if call.parsed.unmapped:
            call.warnings = [*call.warnings, Warning.UNMAPPED_FIELDS]
        learned = hints.harness is not None and session.harness is None
        if learned:
            session.harness = hints.harness
        if not session.known or learned:
            session.known = True
            self._recorder.session(
                SessionRecord(
                    session.id,
                    started_at=call.started_at,
                    harness=hints.harness,
                    harness_version=hints.harness_version,
                )
            )
        session.last_call_at = call.started_at
