"""The WebSocket protocol core: what comes in, what goes out, in order, without a network."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.dialects.base import Action, Generate, Send, Socket, WireRequest
from polar_capture.faults import Fault, FaultKind
from tests.unit.dialects.openai_responses.build import DIALECT, completion, minter, user

EXEC_GROUP = {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}


def connected() -> Socket:
    socket = DIALECT.socket(WireRequest("GET", "/v1/responses", {"session-id": "s"}), minter)
    assert socket is not None
    return socket


def create(socket: Socket, **fields: Any) -> list[Action]:
    return socket.receive(json.dumps({"type": "response.create", "model": "m", "store": False, "input": [], **fields}))


def sent(actions: list[Action]) -> list[dict[str, Any]]:
    assert all(isinstance(action, Send) for action in actions)
    return [json.loads(action.data) for action in actions if isinstance(action, Send)]


def begun(actions: list[Action]) -> Generate:
    (action,) = actions
    assert isinstance(action, Generate)
    return action


def finished(socket: Socket, action: Generate, *answers: Any, **given: Any) -> list[Action]:
    """Runs one call to its end, as the gateway does."""
    ours = minter()
    assert socket.start(action.call, ours, "tiny") == []
    return socket.finish(DIALECT.reply(action.call, completion(*answers, **given), ours))


def test_only_this_path_upgrades() -> None:
    for path in ("/v1/responses", "/responses", "/backend-api/codex/responses"):
        assert DIALECT.socket(WireRequest("GET", path), minter) is not None
    assert DIALECT.socket(WireRequest("GET", "/v1/responses/resp_1"), minter) is None


def test_the_way_of_codex_prewarm_then_turns_that_carry_only_what_is_new() -> None:
    socket = connected()
    warm = sent(create(socket, generate=False))
    assert [event["type"] for event in warm] == ["response.created", "response.in_progress", "response.completed"]
    assert warm[-1]["response"]["output"] == []
    tools = {"type": "additional_tools", "role": "developer", "tools": [EXEC_GROUP]}
    first = begun(create(socket, previous_response_id=warm[-1]["response"]["id"], input=[tools, user("go")]))
    assert [m.content for m in first.call.chat.messages] == ["go"]
    events = sent(finished(socket, first, "Ok.", "hm", [("functions__exec", '{"input":"1"}')], "tool_calls"))
    assert events[-1]["type"] == "response.completed"
    called = events[-1]["response"]["output"][2]
    assert (called["type"], called["namespace"], called["name"]) == ("custom_tool_call", "functions", "exec")
    result = {
        "type": "custom_tool_call_output",
        "call_id": called["call_id"],
        "output": [{"type": "input_text", "text": "1"}],
    }
    second = begun(create(socket, previous_response_id=events[-1]["response"]["id"], input=[result]))
    assert [m.role for m in second.call.chat.messages] == ["user", "assistant", "tool"]
    turn = second.call.chat.messages[1]
    assert (turn.content, turn.reasoning, turn.tool_calls[0].arguments) == ("Ok.", "hm", '{"input":"1"}')
    assert called["call_id"] in turn.echo
    assert [tool.name for tool in second.call.chat.tools] == ["functions__exec"]
    assert second.call.unmapped == []


def test_a_prewarm_may_carry_the_first_input() -> None:
    socket = connected()
    warm = sent(create(socket, generate=False, input=[user("early")]))[-1]["response"]["id"]
    call = begun(create(socket, previous_response_id=warm, input=[user("late")])).call
    assert [m.content for m in call.chat.messages] == ["early", "late"]


def test_the_frame_is_recorded_as_it_came_and_always_streams() -> None:
    action = begun(create(connected(), input="hi", x="y"))
    assert json.loads(action.wire.body)["x"] == "y"
    assert (action.wire.method, action.wire.path, action.wire.headers["session-id"]) == ("POST", "/v1/responses", "s")
    assert action.call.stream is True
    assert action.call.unmapped == ["$.x"]


def test_what_the_connection_does_not_remember_is_left_to_the_store() -> None:
    action = begun(create(connected(), previous_response_id="resp_old", input="hi"))
    known = DIALECT.resolve(begun(create(connected(), input="hi")).call)
    with pytest.raises(StopIteration):
        next(known)
    assert next(DIALECT.resolve(action.call)) == "resp_old"


def test_an_unknown_previous_response_is_an_error_event_and_the_connection_goes_on() -> None:
    socket = connected()
    begun(create(socket, previous_response_id="resp_old", input="hi"))
    fault = Fault(FaultKind.NOT_FOUND, "Previous response with id 'resp_old' not found.", param="previous_response_id")
    (event,) = sent(socket.fail(fault))
    assert (event["type"], event["status"], event["error"]["code"]) == ("error", 400, "previous_response_not_found")
    (refused,) = sent(create(socket, generate=False, previous_response_id="resp_old"))
    assert refused["error"]["code"] == "previous_response_not_found"
    assert begun(create(socket, input="again"))


def test_one_response_at_a_time_the_rest_waits_its_turn() -> None:
    socket = connected()
    first = begun(create(socket, input="one"))
    assert create(socket, input="two") == []
    assert create(socket, generate=False) == []
    assert create(socket, input="three") == []
    *events, second = finished(socket, first)
    assert sent(events)[-1]["type"] == "response.completed"
    assert isinstance(second, Generate)
    assert second.call.chat.messages[0].content == "two"
    *events, third = finished(socket, second)
    assert isinstance(third, Generate)
    assert [event["type"] for event in sent(events)][-3:] == [
        "response.created",
        "response.in_progress",
        "response.completed",
    ]
    assert sent(finished(socket, third))[-1]["type"] == "response.completed"


def test_a_waiting_frame_that_is_wrong_is_answered_in_its_turn() -> None:
    socket = connected()
    first = begun(create(socket, input="one"))
    create(socket, input=5)
    create(socket, input="two")
    *events, second = finished(socket, first)
    assert [event["type"] for event in sent(events)][-2:] == ["response.completed", "error"]
    assert isinstance(second, Generate)


def test_too_many_waiting_are_refused() -> None:
    socket = connected()
    begun(create(socket, input="one"))
    answers = [create(socket, input="x") for _ in range(65)]
    assert answers[:64] == [[]] * 64
    assert sent(answers[64])[0]["status"] == 429


def test_silence_is_filled_by_typed_events() -> None:
    socket = connected()
    action = begun(create(socket, input="hi"))
    assert socket.noop() == []
    ours = minter()
    socket.start(action.call, ours, "tiny")
    early = sent(socket.noop() + socket.noop())
    assert [event["type"] for event in early] == ["response.created", "response.in_progress", "response.in_progress"]
    late = sent(socket.finish(DIALECT.reply(action.call, completion(), ours)))
    assert late[0]["type"] == "response.output_item.added"
    assert [event["sequence_number"] for event in early + late] == list(range(len(early + late)))
    assert late[-1]["response"]["id"] == early[0]["response"]["id"]


@pytest.mark.parametrize(
    ("opened", "kind", "expected"),
    [
        (False, FaultKind.OVERLOADED, ["error"]),
        (False, FaultKind.CONTEXT_OVERFLOW, ["response.created", "response.in_progress", "response.failed"]),
        (True, FaultKind.OVERLOADED, ["response.created", "response.in_progress", "response.failed"]),
    ],
)
def test_faults(opened: bool, kind: FaultKind, expected: list[str]) -> None:
    socket = connected()
    action = begun(create(socket, input="hi", stream_id="lane"))
    socket.start(action.call, minter(), "tiny")
    events = sent((socket.noop() if opened else []) + socket.fail(Fault(kind, "it broke", retry_after="3")))
    assert [event["type"] for event in events] == expected
    assert {event["stream_id"] for event in events} == {"lane"}
    if expected == ["error"]:
        assert (events[0]["status"], events[0]["headers"]) == (429, {"retry-after": "3"})
    assert begun(create(socket, input="again"))


def test_a_compaction_replaces_the_history_of_the_connection() -> None:
    socket = connected()
    first = sent(finished(socket, begun(create(socket, input=[user("a")])), "One."))[-1]["response"]["id"]
    trigger = begun(create(socket, previous_response_id=first, input=[{"type": "compaction_trigger"}]))
    done = sent(finished(socket, trigger, "Sum."))[-1]["response"]
    assert [item["type"] for item in done["output"]] == ["compaction"]
    call = begun(create(socket, previous_response_id=done["id"], input=[user("go")])).call
    assert "Sum." in str(call.chat.messages[0].content)
    assert len(call.chat.messages) == 2


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "no json",
        "[]",
        "{}",
        '{"type":"response.cancel"}',
        '{"type":5}',
        b"\xff",
        '{"type":"response.create","input":7}',
        "\ud800",
    ],
)
def test_bad_frames_are_answered_and_harm_nothing(frame: str | bytes) -> None:
    socket = connected()
    (event,) = sent(socket.receive(frame))
    assert (event["type"], event["status"], event["error"]["type"]) == ("error", 400, "invalid_request_error")
    assert begun(create(socket, input="hi"))


def test_acknowledgements_need_no_answer_and_steering_is_refused() -> None:
    socket = connected()
    assert socket.receive('{"type":"response.processed","response_id":"r"}') == []
    (event,) = sent(socket.receive('{"type":"response.steer","previous_response_id":"r","input":"x"}'))
    assert (event["type"], event["steer"]["input"]) == ("response.steer.failed", "x")


def test_a_nested_request_is_taken_too() -> None:
    nested = {"type": "response.create", "stream_id": "l", "response": {"model": "m", "input": "hi"}}
    call = begun(connected().receive(json.dumps(nested))).call
    assert (call.chat.model, call.chat.messages[0].content, call.unmapped) == ("m", "hi", [])


@given(st.text() | st.binary())
def test_no_frame_raises(frame: str | bytes) -> None:
    sent(connected().receive(frame))
