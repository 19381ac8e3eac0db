import pytest

from polar_capture.sessions import Carrier, Claims, SessionState, SessionTable, as_session_id, name

ALL = Claims("user", "head", "path", "key", "minted", "harness", "c1")


@pytest.mark.parametrize(
    ("claims", "session", "carrier"),
    [
        (ALL, "user", Carrier.PROXY_USER),
        (Claims(None, "head", "path", "key", "minted", "harness", "c1"), "head", Carrier.HEADER),
        (Claims(None, None, "path", "key", "minted", "harness", "c1"), "path", Carrier.GATEWAY_PATH),
        (Claims(None, "", None, "key", "minted", "harness", "c1"), "key", Carrier.GATEWAY_KEY),
        (Claims(None, None, None, None, "minted", "harness", "c1"), "minted", Carrier.MINTED_ID),
        (Claims(None, None, None, None, None, "harness", "c1"), "harness", Carrier.HARNESS),
        (Claims(None, None, None, None, None, None, "c1"), "unattributed-c1", Carrier.CONNECTION),
        (Claims(None, "not valid!", None, None, None, "qwen-code:1 2", "c1"), "qwen-code-1-2", Carrier.HARNESS),
    ],
)
def test_the_first_carrier_wins(claims, session, carrier):
    named = name(claims)
    assert (named.session_id, named.carrier) == (session, carrier)


def test_a_harness_id_becomes_a_session_id():
    assert as_session_id("a:b/c d" + "x" * 200) == "a-b-c-d" + "x" * 121


def test_idle_sessions_are_evicted_and_busy_ones_stay():
    table = SessionTable(kept=2)
    busy = table.add(SessionState("busy", running=1))
    table.add(SessionState("old"))
    table.add(SessionState("new"))
    assert table.get("busy") is busy
    assert table.get("old") is None
    assert table.get("new") is not None


def test_of_two_states_made_at_once_the_first_stays():
    table = SessionTable()
    first = table.add(SessionState("s"))
    assert table.add(SessionState("s")) is first


def test_seq_counts_arrivals():
    state = SessionState("s", next_seq=5)
    assert [state.take_seq(), state.take_seq()] == [5, 6]
