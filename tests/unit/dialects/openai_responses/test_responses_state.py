"""Stateful use on our own store: previous_response_id, item references, the routes of a stored response, compaction."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.chat_normal import normalise
from polar_capture.dialects.openai_responses import compaction, sealed
from polar_capture.faults import CallError, FaultKind
from polar_capture.lineage.minting import Minter
from tests.unit.dialects.openai_responses.build import (
    DIALECT,
    EXEC,
    LS,
    Store,
    answer,
    ask,
    completion,
    minter,
    raw,
    run,
    streamed,
    user,
)

TRIGGER = {"type": "compaction_trigger"}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", **fields}).encode()


def texts(store: Store, **fields: Any) -> list[tuple[str, Any]]:
    call = store.resolved(body(**fields))
    return [(m.role, m.content) for m in normalise(call.chat.messages)]


def test_o_req_responses_10_the_earlier_conversation_precedes_the_input() -> None:
    store = Store()
    first = store.call(completion("Hello Bo.", "a name"), input="My name is Bo.", instructions="Be kind.", store=True)
    second = store.call(completion("Bo."), input="What is my name?", previous_response_id=first["id"])
    seen = texts(store, input="Sure?", previous_response_id=second["id"], instructions="Be brief.")
    assert seen == [
        ("system", "Be brief."),  # instructions are not inherited
        ("user", "My name is Bo."),
        ("assistant", "Hello Bo."),
        ("user", "What is my name?"),
        ("assistant", "Bo."),
        ("user", "Sure?"),
    ]
    assert second["previous_response_id"] == first["id"]


def test_the_turns_of_the_earlier_conversation_are_known_by_their_ids() -> None:
    store = Store()
    first = store.call(completion("Ok.", "hm", [("ls", "{}")], "tool_calls"), input="go", tools=[LS])
    call_id = first["output"][2]["call_id"]
    result = {"type": "function_call_output", "call_id": call_id, "output": "a"}
    call = store.resolved(body(input=[result], previous_response_id=first["id"], tools=[LS]))
    assert [m.role for m in call.chat.messages] == ["user", "assistant", "tool"]
    turn = call.chat.messages[1]
    assert (turn.reasoning, turn.content, turn.tool_calls[0].id) == ("hm", "Ok.", call_id)
    assert set(turn.echo) == {first["output"][0]["id"], first["output"][1]["id"], first["output"][2]["id"], call_id}
    assert call.hints.parent == first["id"]


@pytest.mark.parametrize("named", ["resp_unknown", "not ours"])
def test_o_req_responses_10_an_unknown_response_is_refused(named: str) -> None:
    with pytest.raises(CallError) as refused:
        Store().resolved(body(input="x", previous_response_id=named))
    said = DIALECT.error(refused.value.fault)
    error = json.loads(said.body)["error"]
    assert (said.status, error["code"], error["param"]) == (400, "previous_response_not_found", "previous_response_id")


def test_tools_declared_in_an_earlier_input_stay_declared() -> None:
    store = Store()
    group = {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}
    items = [{"type": "additional_tools", "role": "developer", "tools": [group]}, user("go")]
    first = store.call(completion(None, calls=[("functions__exec", '{"input":"1"}')]), input=items)
    assert first["output"][0]["type"] == "custom_tool_call"
    result = {"type": "custom_tool_call_output", "call_id": first["output"][0]["call_id"], "output": "2"}
    second = store.call(
        completion(None, calls=[("functions__exec", '{"input":"3"}')]), input=[result], previous_response_id=first["id"]
    )
    assert second["output"][0]["type"] == "custom_tool_call"
    third = store.resolved(body(input="more", previous_response_id=second["id"]))
    assert [tool.name for tool in third.chat.tools] == ["functions__exec"]
    assert [c.arguments for m in third.chat.messages for c in m.tool_calls] == ['{"input":"1"}', '{"input":"3"}']


def test_references_are_replaced_by_the_items_they_name() -> None:
    store = Store()
    first = store.call(completion("Ok.", "hm"), input="go")
    references = [{"type": "item_reference", "id": first["output"][0]["id"]}, {"id": first["output"][1]["id"]}]
    call = store.resolved(body(input=[user("go"), *references, user("on")]))
    assert [(m.role, m.content, m.reasoning) for m in call.chat.messages] == [
        ("user", "go", None),
        ("assistant", "Ok.", "hm"),
        ("user", "on", None),
    ]
    assert call.unmapped == []


def test_a_reference_to_nothing_known_is_not_found() -> None:
    with pytest.raises(CallError) as refused:
        Store().resolved(body(input=[{"type": "item_reference", "id": "msg_unknown"}]))
    assert refused.value.fault.kind is FaultKind.NOT_FOUND


def test_a_stored_response_is_said_again() -> None:
    store = Store()
    given = completion("Ok.", "hm", [("ls", "{}")], "tool_calls")
    first = store.call(given, input="go", tools=[LS], include=["reasoning.encrypted_content"])
    assert json.loads(store.get(f"/v1/responses/{first['id']}").body) == first


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_a_stored_response_keeps_its_status(finish: str) -> None:
    store = Store()
    first = store.call(completion("Ok.", finish=finish), input="go")
    assert json.loads(store.get(f"/v1/responses/{first['id']}").body) == first


def test_a_deleted_response_is_to_be_forgotten() -> None:
    store = Store()
    first = store.call(completion("Ok."), input="go")
    said = store.get(f"/v1/responses/{first['id']}", "DELETE")
    assert json.loads(said.body) == {"id": first["id"], "object": "response", "deleted": True}
    assert said.forget == first["id"]


@pytest.mark.parametrize(
    ("method", "tail"), [("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")]
)
@pytest.mark.parametrize("kind", ["unknown", "not stored", "an item"])
def test_what_is_not_stored_is_not_found(method: str, tail: str, kind: str) -> None:
    store = Store()
    said = store.call(completion("Ok."), input="go", store=kind != "not stored")
    named = {"unknown": "resp_x", "not stored": said["id"], "an item": said["output"][0]["id"]}[kind]
    with pytest.raises(CallError) as refused:
        store.get(f"/v1/responses/{named}{tail}", method)
    assert refused.value.fault.kind is FaultKind.NOT_FOUND


def test_nothing_can_be_cancelled() -> None:
    store = Store()
    first = store.call(completion("Ok."), input="go")
    with pytest.raises(CallError) as refused:
        store.get(f"/v1/responses/{first['id']}/cancel", "POST")
    assert refused.value.fault.kind is FaultKind.INVALID


def test_input_items_are_listed_in_pages() -> None:
    store = Store()
    first = store.call(completion("One."), input="a")
    second = store.call(
        completion("Two."), input=[user("b"), {"role": "user", "content": "c"}], previous_response_id=first["id"]
    )
    path = f"/v1/responses/{second['id']}/input_items"
    whole = json.loads(store.get(path, order="asc").body)
    said = [item["content"][0]["text"] for item in whole["data"]]
    assert said == ["a", "One.", "b", "c"]
    assert (whole["object"], whole["has_more"], whole["first_id"]) == ("list", False, whole["data"][0]["id"])
    newest = json.loads(store.get(path, limit="3").body)
    assert [item["content"][0]["text"] for item in newest["data"]] == ["c", "b", "One."]
    assert newest["has_more"] is True
    rest = json.loads(store.get(path, after=newest["last_id"]).body)
    assert [item["content"][0]["text"] for item in rest["data"]] == ["a"]


@pytest.mark.parametrize(
    "query", [{"limit": "0"}, {"limit": "101"}, {"limit": "x"}, {"limit": "²"}, {"after": "nothing"}]
)
def test_wrong_pages_are_refused(query: dict[str, str]) -> None:
    store = Store()
    first = store.call(completion("One."), input="a")
    with pytest.raises(CallError) as refused:
        store.get(f"/v1/responses/{first['id']}/input_items", **query)
    assert refused.value.fault.kind is FaultKind.INVALID


def test_o_req_responses_12_a_trigger_is_answered_by_exactly_one_compaction_item() -> None:
    call = ask(
        input=[user("long history"), TRIGGER], stream=True, tools=[EXEC], text={"format": {"type": "json_object"}}
    )
    assert call.chat.messages[-1].content == compaction.REQUEST
    assert (call.chat.tool_choice and call.chat.tool_choice.mode, call.chat.response_format) == ("none", None)
    assert [tool.name for tool in call.chat.tools] == ["exec"]
    assert call.hints.compaction is True
    for finish in ("stop", "length"):
        found = streamed(ask(input=[user("x"), TRIGGER], stream=True), completion("Sum.", "hm", finish=finish))
        done = [event["item"] for event in found if event["type"] == "response.output_item.done"]
        assert [item["type"] for item in done] == ["compaction"]
        assert found[-1]["type"] == "response.completed"
        assert found[-1]["response"]["output"] == done


def test_o_req_responses_12_the_compact_endpoint_keeps_what_the_user_said() -> None:
    items = [user("long"), {"role": "assistant", "content": "answer"}, {"role": "user", "content": "more"}]
    said = answer(ask(path="/v1/responses/compact", input=items, stream=True), completion("Sum."))
    assert said["object"] == "response.compaction"
    assert [item["type"] for item in said["output"]] == ["message", "message", "compaction"]
    assert said["output"][1]["content"] == [{"type": "input_text", "text": "more"}]


def test_a_summary_made_of_nothing_is_an_error_that_names_compaction() -> None:
    with pytest.raises(CallError) as refused:
        answer(ask(input=[user("x"), TRIGGER]), completion(None))
    assert "compaction" in refused.value.fault.message


def test_a_model_that_only_thought_has_its_thought_for_a_summary() -> None:
    (item,) = answer(ask(input=[user("x"), TRIGGER]), completion(None, "thought"))["output"]
    assert sealed.unseal(item["encrypted_content"]) == "thought"


def test_the_summary_stands_for_the_history_even_without_the_store() -> None:
    ours = minter()
    (item,) = answer(ask(input=[user("x"), TRIGGER]), completion("We did A."), ours)["output"]
    developer = {"role": "developer", "content": "Rules."}
    call = ask(input=[item, developer, user("go on")], instructions="Base.")
    front, back = normalise(call.chat.messages)
    assert front.content == "Base.\n\nRules."
    assert str(back.content).index("We did A.") < str(back.content).index("go on")
    echoed = call.chat.messages[2].echo
    assert len(echoed) == 2
    assert set(echoed) <= set(ours.minted)


@pytest.mark.parametrize("encrypted", ["gAAAA", "", None, "a.b", "."])
def test_a_foreign_summary_is_no_error_and_is_reported(encrypted: str | None) -> None:
    call = ask(input=[{"type": "compaction", "encrypted_content": encrypted}, user("go")])
    assert call.unmapped == ["$.input[0].encrypted_content"]
    assert call.chat.messages[0].content == compaction.UNREADABLE


def test_a_stored_compaction_replaces_what_was_before_it() -> None:
    store = Store()
    first = store.call(completion("One."), input=[{"role": "developer", "content": "Rules."}, user("a")])
    second = store.call(completion("Sum."), input=[TRIGGER], previous_response_id=first["id"])
    seen = texts(store, input="go on", previous_response_id=second["id"])
    assert [role for role, _ in seen] == ["system", "user"]
    assert seen[0][1] == "Rules."
    assert "Sum." in seen[1][1]
    assert "One." not in str(seen)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_sealed_is_unsealed(summary: str) -> None:
    token = Minter("0198a000-0000-7000-8000-0000000000aa").opaque("compaction-0")
    sealed_text = sealed.seal(token, summary)
    assert sealed.unseal(sealed_text) == summary
    assert sealed.token_of(sealed_text) == token
    assert sealed.turn_of(token) == "0198a000000070008000" + "0000000000aa"


@given(st.text())
def test_nothing_else_unseals(encrypted: str) -> None:
    assert sealed.unseal(encrypted) is None


def test_a_damaged_seal_is_none() -> None:
    token = Minter("0198a000-0000-7000-8000-0000000000aa").opaque("compaction-0")
    whole = sealed.seal(token, "summary " * 50)
    assert sealed.unseal(whole[:-8]) is None
    assert sealed.unseal(whole.replace(".", ".A")) is None


def test_resolving_a_call_that_names_nothing_changes_nothing() -> None:
    call = raw(body(input="hi"))
    assert run(DIALECT.resolve(call)) is call
