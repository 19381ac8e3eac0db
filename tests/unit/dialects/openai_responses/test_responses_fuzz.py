"""Whatever comes in, only CallError comes out; and what we said comes back as the turn that was sampled."""

import json
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polar_capture.chat import Message
from polar_capture.dialects.openai_responses.items import COMPACTED, HOSTED
from polar_capture.dialects.openai_responses.native_tools import BY_CALL_TYPE
from polar_capture.faults import CallError
from polar_capture.lineage.turns import TurnBook
from tests.unit.dialects.openai_responses.build import DIALECT, LS, answer, ask, completion, minter, raw, run, streamed

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
KINDS = [
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    *[
        "item_reference",
        "tool_search_output",
        "additional_tools",
        "agent_message",
        "compaction_trigger",
        "input_text",
        "input_image",
    ],
    *[
        "function",
        "custom",
        "namespace",
        "local_shell_call_output",
        "shell_call_output",
        "apply_patch_call_output",
        "mcp_approval_response",
    ],
    "computer_call_output",
    "program_output",
    "summary_text",
    "grammar",
    "allowed_tools",
    "json_schema",
    *HOSTED,
    *COMPACTED,
    *BY_CALL_TYPE,
]
NAMES = [
    *[
        "type",
        "role",
        "content",
        "text",
        "id",
        "call_id",
        "name",
        "arguments",
        "input",
        "output",
        "summary",
        "encrypted_content",
        "tools",
        "tool_choice",
    ],
    *[
        "namespace",
        "action",
        "commands",
        "command",
        "operation",
        "parameters",
        "description",
        "format",
        "definition",
        "image_url",
        "detail",
        "status",
    ],
    *[
        "include",
        "reasoning",
        "effort",
        "instructions",
        "previous_response_id",
        "temperature",
        "max_output_tokens",
        "top_logprobs",
        "metadata",
    ],
    *[
        "stream",
        "store",
        "text",
        "client_metadata",
        "prompt_cache_key",
        "execution",
        "function",
        "mode",
        "schema",
        "strict",
        "stop",
        "filename",
        "file_data",
    ],
]
ROLES = ["user", "assistant", "system", "developer"]
VALUES = st.recursive(
    SCALARS | st.sampled_from(KINDS) | st.sampled_from(ROLES),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=6)
    ),
    max_leaves=25,
)
ITEMS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6)
TYPED = st.builds(lambda item, kind: item | {"type": kind}, ITEMS, st.sampled_from(KINDS))
BODIES = st.builds(
    lambda rest, items, tools: rest | {"input": items} | ({"tools": tools} if tools is not None else {}),
    ITEMS,
    st.lists(TYPED | VALUES, max_size=5) | VALUES,
    st.none() | st.lists(TYPED, max_size=3) | VALUES,
)
SLOW = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@SLOW
@given(st.binary() | BODIES.map(lambda body: json.dumps(body).encode()))
def test_only_call_errors_escape(sent: bytes) -> None:
    try:
        call = run(DIALECT.resolve(raw(sent)))
    except CallError:
        return
    assert all(path.startswith("$.") for path in call.unmapped)
    msgspec.json.encode(call.chat)
    ours = minter()
    stream = DIALECT.stream(call, ours, "tiny")
    assert stream.open(None)
    assert stream.finish(DIALECT.reply(call, completion("Ok.", "hm", [("exec", "{}")]), ours))


def typed_items(response: dict[str, Any], keep: str) -> list[dict[str, Any]]:
    """Our output items as a harness echoes them: whole, or without the ids it drops (facts/harnesses.md §5)."""
    if keep == "all":
        return response["output"]
    dropped = {"pi": (), "qwen": ("message", "function_call"), "opencode": ("reasoning", "message", "function_call")}[
        keep
    ]
    return [{k: v for k, v in i.items() if k != "id" or i["type"] not in dropped} for i in response["output"]]


@settings(deadline=None)
@given(
    TEXTS,
    TEXTS,
    st.lists(st.tuples(st.sampled_from(["ls", "free"]), TEXTS), max_size=3),
    st.sampled_from(["all", "pi", "qwen", "opencode"]),
    st.booleans(),
)
def test_what_we_said_comes_back_as_the_turn_that_was_sampled(
    content: str, reasoning: str, said: list[tuple[str, str]], keep: str, stream: bool
) -> None:
    calls = [(name, json.dumps({"input": text} if name == "free" else {"dir": text})) for name, text in said]
    asked: dict[str, Any] = {
        "tools": [LS, {"type": "custom", "name": "free"}],
        "include": ["reasoning.encrypted_content"],
    }
    given_ = completion(content, reasoning, calls)
    ours = minter()
    response = streamed(ask(**asked), given_)[-1]["response"] if stream else answer(ask(**asked), given_, ours)
    again = ask(
        **asked,
        input=[{"role": "user", "content": "hi"}, *typed_items(response, keep), {"role": "user", "content": "on"}],
    )
    turns = [m for m in again.chat.messages if m.role == "assistant"]
    sampled = given_.choices[0].message
    if not (content.strip() or reasoning or calls):
        assert [m.content or "" for m in turns] in ([], [content])
        return
    (turn,) = turns
    assert turn.reasoning == (reasoning or None)
    assert turn.content == (content if content.strip() else None)
    assert [(c.name, json.loads(c.arguments)) for c in turn.tool_calls] == [(n, json.loads(a)) for n, a in calls]
    if not stream and (reasoning or calls or keep in ("all", "pi")):
        assert restored(turn, sampled, ours.minted) == ours.minted[0]


def restored(turn: Message, sampled: Message, minted: list[str]) -> str | None:
    """The call that the book finds for an echoed turn; it is named by its first id here."""
    book = TurnBook()
    book.add(minted[0], [sampled], minted)
    return book.restore([turn]).parent
