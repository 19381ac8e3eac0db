"""Responses that are asked for again, continued, deleted and compacted, by the official SDKs."""

from typing import Any

import openai
import pytest
from openai.types.responses import CompactedResponse

from tests.sdk.openai_client import sync_client
from tests.sdk.scenarios import PARAMETERS, SCENARIOS, TEXT, THOUGHTS
from tests.sdk.stage import Stage

LS: Any = {"type": "function", "name": "ls", "parameters": PARAMETERS, "strict": False}


def prompt(name: str) -> str:
    return SCENARIOS[name].asked.prompt


def test_a_response_is_told_again_as_it_was(stage: Stage) -> None:
    client = sync_client(stage, "again")
    first = client.responses.create(
        model="gpt-9", input=prompt("tool"), tools=[LS], include=["reasoning.encrypted_content"]
    )
    again = client.responses.retrieve(first.id)
    assert again.output == first.output
    assert (again.id, again.status, again.output_text) == (first.id, first.status, TEXT)


def test_a_conversation_goes_on_by_the_previous_response_alone(stage: Stage) -> None:
    client = sync_client(stage, "goes-on")
    first = client.responses.create(model="gpt-9", input=prompt("tool"), tools=[LS], instructions="Be brief.")
    call = next(item for item in first.output if item.type == "function_call")
    answer: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": "a.txt"},
        {"role": "user", "content": prompt("odd")},
    ]
    second = client.responses.create(model="gpt-9", input=answer, tools=[LS], previous_response_id=first.id)
    assert second.previous_response_id == first.id
    listed = list(client.responses.input_items.list(second.id, order="asc", limit=100))
    assert [item.type for item in listed] == [
        "message",
        "reasoning",
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]
    older, newer = stage.calls("goes-on", 2)
    assert newer["parent_call_id"] == older["id"]
    asked = stage.double.chats[-1].body["messages"]
    echoed = next(message for message in asked if message["role"] == "assistant")
    assert (echoed["content"], echoed["reasoning"]) == (TEXT, THOUGHTS)


def test_a_deleted_response_is_forgotten_and_its_record_stays(stage: Stage) -> None:
    client = sync_client(stage, "deleted")
    first = client.responses.create(model="gpt-9", input=prompt("text"))
    second = client.responses.create(model="gpt-9", input=prompt("text"), previous_response_id=first.id)
    client.responses.delete(first.id)
    for lost in (client.responses.retrieve, client.responses.delete):
        with pytest.raises(openai.NotFoundError):
            lost(first.id)
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="gpt-9", input=prompt("text"), previous_response_id=first.id)
    assert refused.value.code == "previous_response_not_found"
    assert client.responses.retrieve(second.id).output == second.output
    rows = stage.calls("deleted", 2)
    assert [row["status"] for row in rows] == ["ok", "ok"]


def test_what_was_not_to_be_stored_is_not_told_again(stage: Stage) -> None:
    client = sync_client(stage, "not-stored")
    response = client.responses.create(model="gpt-9", input=prompt("text"), store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)


def test_a_history_is_compacted_and_goes_on(stage: Stage) -> None:
    client = sync_client(stage, "compacted")
    compacted = client.responses.compact(model="gpt-9", input=[{"role": "user", "content": "long history"}])
    assert isinstance(compacted, CompactedResponse)
    (item,) = [item for item in compacted.output if item.type == "compaction"]
    history: Any = [*(kept.model_dump(exclude_none=True) for kept in compacted.output)]
    client.responses.create(model="gpt-9", input=[*history, {"role": "user", "content": prompt("text")}])
    assert item.encrypted_content
    assert "Hello." in str(stage.double.chats[-1].body["messages"]), "the summary stands for the history"


def test_a_compaction_trigger_is_answered_by_exactly_one_item(stage: Stage) -> None:
    client = sync_client(stage, "triggered")
    trigger: Any = [{"role": "user", "content": "long history"}, {"type": "compaction_trigger"}]
    response = client.responses.create(model="gpt-9", input=trigger)
    assert [item.type for item in response.output] == ["compaction"]


def test_counting_leaves_no_row_and_models_are_listed(stage: Stage) -> None:
    client = sync_client(stage, "counts")
    counted = client.responses.input_tokens.count(model="gpt-9", input="How many?")
    assert counted.input_tokens > 0
    assert [model.id for model in client.models.list()] == ["toy"]
    assert client.models.retrieve("gpt-9").id == "gpt-9"
    assert stage.calls("counts", 0) == []
