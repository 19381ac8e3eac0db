"""Databases for the pages: a session with everything that can happen, one with hostile text, and a long one."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from polar_capture import store
from polar_capture.store.records import CallRecord, SessionRecord
from polar_capture.tokenizers import Pieces

HOSTILE = (
    "</script><script>window.owned=1</script><img src=x onerror='window.owned=2'>&lt;b&gt;"
    "\x1b[31mred\x1b]0;title\x07 \u202egnp.exe\u202c \u2066x\u2069 line\u2028sep\u2029 nul\x00 lone\ud83d \udc4d "
    "שלום <!--<script> ]]> ${window.owned=3} javascript:window.owned=4"
)
WORDS = ["the", " test", " fails", " in", " parser", ".py", " line", " 42", "\n", " return", " None", " <b>", " é", "✓"]


def piece(token: int) -> bytes | None:
    """A vocabulary: 9 is hostile, 10 and 11 are the halves of é."""
    if token == 9:
        return HOSTILE.encode("utf-8", "replace")
    if token in (10, 11):
        return bytes(["é".encode()[token - 10]])
    return WORDS[token % len(WORDS)].encode()


PIECES = Pieces("a vocabulary of the tests", piece)


def body(messages: list[dict[str, Any]], **more: Any) -> bytes:
    return json.dumps({"messages": messages, **more}).encode()


def record(session: str, seq: int, **changes: Any) -> CallRecord:
    prompt, sampled = changes["prompt_ids"], changes["completion_ids"]
    given = {
        "id": f"{session}-{seq}",
        "session_id": session,
        "seq": seq,
        "dialect": "openai_chat",
        "host": "api.openai.com",
        "path": "/v1/chat/completions",
        "status": "ok",
        "trainable": True,
        "streamed": True,
        "started_at": 1_800_000_000.0 + 3 * seq,
        "finished_at": 1_800_000_001.5 + 3 * seq,
        "upstream_ms": 1200.0,
        "finish_reason": "stop",
        "upstream": "http://127.0.0.1:9",
        "logprobs": None if sampled is None else [-0.02 - 0.4 * (i % 7) for i in range(len(sampled))],
        "prompt_tokens": None if prompt is None else len(prompt),
        "completion_tokens": None if sampled is None else len(sampled),
        "delivered": True,
        **changes,
    }
    return CallRecord(**given)


def write(db: Path, sessions: dict[str, list[CallRecord]], *, group: str | None = None) -> None:
    with store.open(db, spool=db.parent / "spool") as captured:
        writer = captured.writer()
        for index, (session, calls) in enumerate(sessions.items()):
            named = SessionRecord(
                session, 1_800_000_000.0, task_id="t-1", group_id=group, sample_index=index, harness="pi"
            )
            writer.session(named).result(10)
            for call in calls:
                writer.call([call]).result(30)


def eventful(session: str = "s-all", hostile: str = "plain") -> list[CallRecord]:
    """A turn and its exact continuation, one whose reasoning was dropped, a subagent, a retry and an error."""
    system = {"role": "system", "content": "You fix tests."}
    user = {"role": "user", "content": f"fix it {hostile}"}
    prompt = [1, 2, 3, 4, 5, 9, 13, 14, 15]
    sampled = [20, 21, 10, 11, 22, 9, 23]
    tool_call = {"id": "c1", "name": "bash", "arguments": json.dumps({"command": f"pytest {hostile}"})}
    message = {
        "role": "assistant",
        "content": f"I run it. {hostile}",
        "reasoning": f"hm {hostile}",
        "tool_calls": [tool_call],
    }
    echoed = {
        "role": "assistant",
        "content": f"I run it! {hostile}",
        "tool_calls": [{"id": "minted-1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}],
    }
    result = {"role": "tool", "tool_call_id": "minted-1", "content": f"1 failed {hostile}"}
    second = [*prompt, *sampled, 30, 31, 32]
    third = [*prompt, *sampled[:3], 40, 41, 42, 43]
    first_body = body([system, user])
    next_body = body([system, user, {**message, "content": "I run it."}, result])
    return [
        record(session, 0, prompt_ids=prompt, completion_ids=sampled, chat_request=first_body, request=first_body,
               message=json.dumps(message).encode(), minted=["minted-1"]),
        record(session, 1, prompt_ids=second, completion_ids=[50, 51, 52], parent_call_id=f"{session}-0",
               prefix_len=len(prompt) + len(sampled), chat_request=next_body,
               request=body([system, user, echoed, result], model="gpt-x"),
               message=json.dumps({"role": "assistant", "content": f"done {hostile}"}).encode(),
               warnings=["sampling_shaped"]),
        record(session, 2, prompt_ids=third, completion_ids=[60, 61], chat_request=next_body, request=next_body,
               message=b'{"role":"assistant","content":"again"}'),
        record(session, 3, agent="sub:1", prompt_ids=[70, 71, 72], completion_ids=[73, 74], chat_request=first_body,
               request=first_body, message=b'{"role":"assistant","content":"a subagent"}'),
        record(session, 4, prompt_ids=second, completion_ids=[50, 53], attempt=1, chat_request=next_body,
               request=next_body, message=b'{"role":"assistant","content":"a retry"}', trainable=False,
               reason="undelivered", delivered=False),
        record(session, 5, prompt_ids=None, completion_ids=None, chat_request=None, request=next_body, status="error",
               trainable=False, reason="upstream_error", error=f"the engine is down {hostile}", message=None,
               delivered=None, finish_reason=None),
    ]  # fmt: skip


def long(session: str = "s-long", turns: int = 200, tokens: int = 100_000) -> list[CallRecord]:
    """Each turn continues the one before exactly; the last prompt has `tokens` tokens."""
    random = np.random.default_rng(7)
    sampled = 120
    step = (tokens - 2000) // (turns - 1) - sampled
    context = random.integers(100, 30_000, 2000).tolist()
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "system " * 1000},
        {"role": "user", "content": "go"},
    ]
    calls = []
    for turn in range(turns):
        completion = random.integers(100, 30_000, sampled).tolist()
        text = f"turn {turn}: " + "word " * 90
        chat = body(messages)
        calls.append(
            record(session, turn, prompt_ids=context, completion_ids=completion, chat_request=chat, request=chat,
                   parent_call_id=f"{session}-{turn - 1}" if turn else None,
                   message=json.dumps({"role": "assistant", "content": text}).encode())
        )  # fmt: skip
        messages = [
            *messages,
            {"role": "assistant", "content": text},
            {"role": "user", "content": f"result {turn} " + "output " * 330},
        ]
        context = [*context, *completion, *random.integers(100, 30_000, step).tolist()]
    return calls
