"""Tools of a Messages request: offered, deferred, hosted, typed; and the choice between them."""

import json
from typing import Any

import pytest

from polar_capture.chat import Tool, ToolChoice
from polar_capture.faults import CallError
from tests.unit.dialects.anthropic.build import LS, USER, ask, result, said, used

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
FETCH = {"name": "fetch", "description": "Get a page.", "input_schema": {"type": "object"}, "defer_loading": True}
FETCH_LINE = (
    'Tool available: {"type":"function","function":'
    '{"name":"fetch","description":"Get a page.","parameters":{"type":"object"}}}'
)
FOUND = {"type": "tool_reference", "tool_name": "fetch"}


def names(**body: Any) -> list[str]:
    return [tool.name for tool in ask(**body).chat.tools]


def test_o_req_anthropic_12_hosted_tools_are_left_out_and_reported():
    call = ask(tools=[LS, SEARCH, {"type": "mcp_toolset", "mcp_server_name": "s"}])
    assert call.chat.tools == [Tool("ls", None, LS["input_schema"])]
    assert call.unmapped == ["$.tools[1]", "$.tools[2]"]


@pytest.mark.parametrize(
    ("choice", "mapped", "parallel"),
    [
        ({"type": "any"}, ToolChoice("required"), None),
        ({"type": "none"}, ToolChoice("none"), None),
        ({"type": "tool", "name": "ls"}, ToolChoice("function", "ls"), None),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice("auto"), False),
        ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice("required"), False),
        ({"type": "auto", "disable_parallel_tool_use": False}, ToolChoice("auto"), None),
        (None, None, None),
    ],
)
def test_o_req_anthropic_13_tool_choice(choice: Any, mapped: ToolChoice | None, parallel: bool | None):
    chat = ask(tools=[LS], tool_choice=choice).chat
    assert (chat.tool_choice, chat.parallel_tool_calls) == (mapped, parallel)


def test_a_choice_among_hosted_tools_only_is_no_choice():
    auto = ask(tools=[SEARCH], tool_choice={"type": "auto"})
    assert (auto.chat.tools, auto.chat.tool_choice, auto.unmapped) == ([], None, ["$.tools[0]"])
    forced = ask(tools=[SEARCH], tool_choice={"type": "tool", "name": "web_search"})
    assert (forced.chat.tool_choice, forced.unmapped) == (None, ["$.tools[0]", "$.tool_choice"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"tool_choice": {"type": "any"}}, "tool_choice: tool_choice may only be specified while providing tools"),
        ({"tools": [LS], "tool_choice": {"type": "tool", "name": "rm"}}, "tool_choice.name: Tool 'rm' not found"),
        ({"tools": [LS], "tool_choice": {"type": "tool"}}, "tool_choice.name: Field required"),
        ({"tools": [LS], "tool_choice": {"type": "some"}}, "tool_choice.type: Input should be"),
        ({"tools": [LS], "tool_choice": "auto"}, "tool_choice: Input should be a valid dictionary"),
        ({"tools": [{"name": "ls"}]}, "tools.0.input_schema: Field required"),
        ({"tools": [{**LS, "name": None}]}, "tools.0.name: Field required"),
        ({"tools": [{**LS, "name": ""}]}, "tools.0.name: String should have at least 1 character"),
        ({"tools": [LS, {**LS, "input_schema": []}]}, "tools.1.input_schema: Input should be a valid dictionary"),
        ({"tools": [{**LS, "strict": "yes"}]}, "tools.0.strict: Input should be a valid boolean"),
        ({"tools": {"ls": LS}}, "tools: Input should be a valid list"),
    ],
)
def test_wrong_tools_are_refused_by_name(body: dict[str, Any], message: str):
    with pytest.raises(CallError) as caught:
        ask(**body)
    assert caught.value.fault.message.startswith(message)


def test_fields_of_tools_are_carried_or_reported():
    call = ask(tools=[{**LS, "type": "custom", "strict": True, "eager_input_streaming": True, "input_examples": [{}]}])
    assert call.chat.tools[0].strict is True
    assert call.unmapped == ["$.tools[0].input_examples"]


@pytest.mark.parametrize(
    ("kind", "name", "some", "without"),
    [
        ("bash_20250124", "bash", {"command", "restart"}, set()),
        ("text_editor_20250124", "str_replace_editor", {"command", "path", "new_str"}, {"insert_text"}),
        ("text_editor_20250728", "str_replace_based_edit_tool", {"command", "path", "insert_text"}, set()),
        ("memory_20250818", "memory", {"command", "old_path", "insert_text"}, set()),
        ("computer_20241022", "computer", {"action", "coordinate"}, {"scroll_amount"}),
        ("computer_20250124", "computer", {"action", "scroll_amount", "duration"}, {"region"}),
    ],
)
def test_typed_client_tools_get_their_documented_inputs(kind: str, name: str, some: set[str], without: set[str]):
    call = ask(tools=[{"type": kind, "name": name}])
    (tool,) = call.chat.tools
    properties = tool.parameters["properties"]
    assert tool.name == name
    assert tool.description
    assert some <= properties.keys()
    assert not without & properties.keys()
    assert call.unmapped == []


def test_options_of_typed_tools_are_told_to_the_model():
    screen = {"display_width_px": 1024, "display_height_px": 768, "enable_zoom": True}
    editor, computer = ask(
        tools=[
            {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 900},
            {"type": "computer_20251124", "name": "computer", **screen},
        ]
    ).chat.tools
    assert "900 characters" in str(editor.description)
    assert "1024x768" in str(computer.description)
    assert "zoom" in computer.parameters["properties"]["action"]["enum"]
    assert "region" in computer.parameters["properties"]


def test_undo_is_offered_where_the_version_has_it():
    for kind, undo in (("text_editor_20250124", True), ("text_editor_20250429", False)):
        (tool,) = ask(tools=[{"type": kind, "name": "e"}]).chat.tools
        assert ("undo_edit" in tool.parameters["properties"]["command"]["enum"]) is undo


def test_deferred_tools_stand_where_they_were_discovered():
    call = ask(tools=[FETCH, LS], messages=used(result([FOUND])))
    assert [tool.name for tool in call.chat.tools] == ["ls"]
    assert said(call)[-1] == ("tool", FETCH_LINE)
    assert call.unmapped == []


def test_discovering_tools_never_changes_what_stands_before():
    before = ask(tools=[LS], messages=used(result("x")))
    after = ask(tools=[FETCH, LS], messages=[*used(result("x")), *used(result([FOUND]))[1:]])
    assert after.chat.tools == before.chat.tools
    assert after.chat.messages[: len(before.chat.messages)] == before.chat.messages


def test_a_deferred_tool_is_offered_when_it_is_the_choice():
    assert names(tools=[FETCH, LS], tool_choice={"type": "tool", "name": "fetch"}) == ["ls", "fetch"]


def test_without_anthropics_tool_search_all_deferred_tools_are_offered_in_their_order():
    hosted = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    other = {**FETCH, "name": "other"}
    assert names(tools=[FETCH, other, hosted, LS, {**FETCH, "name": "last"}]) == ["fetch", "other", "ls", "last"]


def test_an_unknown_reference_names_the_tool():
    assert said(ask(tools=[LS], messages=used(result([FOUND]))))[-1] == ("tool", "Tool available: fetch")


def test_tools_found_by_anthropics_search_are_shown_in_the_history():
    block = {
        "type": "tool_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": {"type": "tool_search_tool_search_result", "tool_references": [FOUND]},
    }
    call = ask(tools=[FETCH], messages=[USER, {"role": "assistant", "content": [block]}, USER])
    assert said(call)[1] == ("assistant", FETCH_LINE)


@pytest.mark.parametrize(
    ("block", "line"),
    [
        ({"type": "tool_addition", "tool": {"type": "tool_reference", "name": "fetch"}}, FETCH_LINE),
        ({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": FETCH}}, FETCH_LINE),
        ({"type": "tool_removal", "tool": {"type": "tool_reference", "name": "ls"}}, "Tool no longer available: ls"),
    ],
)
def test_tool_changes_in_the_conversation_are_told(block: dict[str, Any], line: str):
    call = ask(tools=[FETCH, LS], messages=[USER, {"role": "system", "content": [block]}])
    assert said(call)[-1] == ("system", line)


def test_a_deferred_schema_is_always_written_alike():
    shuffled = json.loads(json.dumps(FETCH))
    assert said(ask(tools=[shuffled, LS], messages=used(result([FOUND]))))[-1] == ("tool", FETCH_LINE)
