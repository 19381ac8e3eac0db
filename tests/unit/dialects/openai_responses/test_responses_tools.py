"""The tools of a request: declared in many kinds, offered as functions, and their items in the history."""

import json
from typing import Any

import pytest

from polar_capture.chat import ToolChoice
from tests.unit.dialects.openai_responses.build import EXEC, ask, roles, spoken, user


def test_o_req_responses_03_and_09_custom_tools_become_functions_of_one_string() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    patch = {"type": "custom", "name": "apply_patch", "description": "edit files", "format": grammar}
    (tool,) = ask(tools=[patch]).chat.tools
    assert tool.name == "apply_patch"
    assert tool.description == "edit files"
    assert tool.parameters["required"] == ["input"] == list(tool.parameters["properties"])
    assert tool.parameters["properties"]["input"]["type"] == "string"
    assert "start: /.+/" in tool.parameters["properties"]["input"]["description"]


def test_o_req_responses_04_tools_of_a_group_reach_the_engine() -> None:
    group = {
        "type": "namespace",
        "name": "mcp__docs",
        "description": "The docs.",
        "tools": [{**EXEC, "name": "search"}],
    }
    seen = ask(tools=[EXEC, group])
    assert [tool.name for tool in seen.chat.tools] == ["exec", "mcp__docs__search"]
    assert seen.chat.tools[1].description == "The docs."


def test_names_that_collide_are_told_apart() -> None:
    group = {"type": "namespace", "name": "a", "tools": [{**EXEC, "name": "b"}]}
    assert [tool.name for tool in ask(tools=[{**EXEC, "name": "a__b"}, group]).chat.tools] == ["a__b", "a__b_2"]


def test_o_req_responses_09_additional_tools_are_offered_and_leave_no_message() -> None:
    group = {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}
    seen = ask(input=[{"type": "additional_tools", "role": "developer", "id": "at_1", "tools": [group]}, user("hi")])
    assert [tool.name for tool in seen.chat.tools] == ["functions__exec"]
    assert [m.content for m in seen.chat.messages] == ["hi"]


def test_tools_that_come_late_are_shown_where_they_come() -> None:
    late = {"type": "additional_tools", "role": "developer", "tools": [{**EXEC, "name": "late"}]}
    seen = ask(input=[user("hi"), spoken("yo"), late, user("go")], tools=[EXEC])
    assert [tool.name for tool in seen.chat.tools] == ["exec"]
    assert '"name":"late"' in str(seen.chat.messages[2].content)


def test_tools_found_by_a_search_are_shown_in_its_output_and_known_afterwards() -> None:
    found = {"type": "tool_search_output", "call_id": "s1", "execution": "client", "tools": [{**EXEC, "name": "found"}]}
    search = {"type": "tool_search_call", "call_id": "s1", "execution": "client", "arguments": {"query": "x"}}
    declared = [{"type": "tool_search", "execution": "client"}, {**EXEC, "name": "found", "defer_loading": True}]
    seen = ask(input=[user("hi"), search, found], tools=declared)
    assert [tool.name for tool in seen.chat.tools] == ["tool_search"]
    assert seen.chat.messages[1].tool_calls[0].arguments == '{"query":"x"}'
    assert '"name":"found"' in str(seen.chat.messages[2].content)


def test_deferred_tools_are_offered_at_once_where_nobody_can_search() -> None:
    seen = ask(tools=[{"type": "tool_search", "execution": "server"}, {**EXEC, "defer_loading": True}])
    assert [tool.name for tool in seen.chat.tools] == ["exec"]
    assert seen.unmapped == ["$.tools[0]"]


HOSTED: list[dict[str, Any]] = [
    {"type": "web_search", "external_web_access": True},
    {"type": "web_search_preview"},
    {"type": "file_search", "vector_store_ids": ["v"]},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "image_generation"},
    {"type": "mcp", "server_label": "x", "server_url": "https://x.example"},
    {"type": "computer_use_preview", "display_width": 1, "display_height": 1, "environment": "linux"},
    {"type": "shell", "environment": {"type": "container_auto"}},
    {"type": "something_new"},
]


@pytest.mark.parametrize("tool", HOSTED, ids=lambda tool: tool["type"])
def test_hosted_tools_are_not_offered_and_said_to_be_missing(tool: dict[str, Any]) -> None:
    seen = ask(tools=[EXEC, tool], tool_choice={"type": tool["type"]})
    assert [t.name for t in seen.chat.tools] == ["exec"]
    assert seen.unmapped == ["$.tools[1]", "$.tool_choice"]


@pytest.mark.parametrize(
    ("declared", "item", "arguments", "result", "told"),
    [
        (
            {"type": "local_shell"},
            {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": None}},
            {"command": ["ls"]},
            {"type": "local_shell_call_output", "id": "c1", "output": "a.txt"},
            "a.txt",
        ),
        (
            {"type": "shell"},
            {"type": "shell_call", "action": {"commands": ["ls"], "timeout_ms": 5}},
            {"commands": ["ls"], "timeout_ms": 5},
            {
                "type": "shell_call_output",
                "call_id": "c1",
                "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit"}}],
            },
            '{"stdout":"a","stderr":"","outcome":{"type":"exit"}}',
        ),
        (
            {"type": "apply_patch"},
            {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "x"}, "status": "completed"},
            {"type": "delete_file", "path": "x"},
            {"type": "apply_patch_call_output", "call_id": "c1", "status": "failed", "output": "no such file"},
            "no such file",
        ),
        (
            {"type": "custom", "name": "patch"},
            {"type": "custom_tool_call", "name": "patch", "input": 'a "b"\n'},
            {"input": 'a "b"\n'},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
            "ok",
        ),
    ],
    ids=["local_shell", "shell", "apply_patch", "custom"],
)
def test_history_of_special_tools(declared: Any, item: Any, arguments: Any, result: Any, told: str) -> None:
    seen = ask(tools=[declared], input=[user("hi"), {**item, "id": "x1", "call_id": "c1"}, result])
    (called,) = seen.chat.messages[1].tool_calls
    assert (called.id, called.name) == ("c1", seen.chat.tools[0].name)
    assert json.loads(called.arguments) == arguments
    assert (seen.chat.messages[2].tool_call_id, seen.chat.messages[2].content) == ("c1", told)
    assert seen.unmapped == []


def test_items_of_hosted_tools_are_told_in_words_and_reported() -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "kites"},
    }
    seen = ask(input=[user("hi"), search, spoken("Found."), user("go")])
    assert roles(seen) == ["user", "assistant", "user"]
    assert "kites" in str(seen.chat.messages[1].content)
    assert seen.unmapped == ["$.input[1]"]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, None),
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "name": "exec"}, ToolChoice("function", "exec")),
        ({"type": "custom", "name": "patch"}, ToolChoice("function", "patch")),
        ({"type": "local_shell"}, ToolChoice("function", "local_shell")),
        ({"type": "function", "name": "go", "namespace": "g"}, ToolChoice("function", "g__go")),
    ],
)
def test_o_req_responses_13_tool_choice(choice: Any, expected: ToolChoice | None) -> None:
    group = {"type": "namespace", "name": "g", "tools": [{**EXEC, "name": "go"}]}
    tools = [EXEC, {"type": "custom", "name": "patch"}, {"type": "local_shell"}, group]
    seen = ask(tools=tools, tool_choice=choice, parallel_tool_calls=False)
    assert seen.chat.tool_choice == expected
    assert seen.chat.parallel_tool_calls is False


@pytest.mark.parametrize(
    ("mode", "names", "expected"),
    [
        ("auto", ["exec"], ToolChoice("auto")),
        ("required", ["exec"], ToolChoice("function", "exec")),
        ("required", ["exec", "ls"], ToolChoice("required")),
        ("auto", [], ToolChoice("none")),
    ],
)
def test_o_req_responses_13_allowed_tools_are_the_only_ones_offered(
    mode: str, names: list[str], expected: ToolChoice
) -> None:
    allowed = {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": name} for name in names]}
    seen = ask(tools=[EXEC, {**EXEC, "name": "ls"}, {**EXEC, "name": "rm"}], tool_choice=allowed)
    assert seen.chat.tool_choice == expected
    assert [tool.name for tool in seen.chat.tools] == names
