"""Databases with a few captured calls, written by the store's own writer."""

import json
import time

from click.testing import CliRunner

from polar_capture import store
from polar_capture.cli import main
from polar_capture.store.records import CallRecord, SessionRecord
from tests.unit.trajectories.builders import END, opening, then

TOOLS = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}]
CALLED = {
    "role": "assistant",
    "content": "let me see",
    "reasoning": "hm",
    "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "ls", "arguments": '{"dir": "."}'}}],
}
ANSWER = {"role": "assistant", "content": "a\u2028b\u0085c \U0001f600 \u6f22"}
ASKED = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "list"}]
RESULT = {"role": "tool", "tool_call_id": "t1", "content": "x.py"}


class Captured:
    """A database and what was captured into it."""

    def __init__(self, path, **options):
        self.path = path
        self.store = store.open(path, **options)
        self.writer = self.store.writer()

    def session(self, id, **more):
        self.writer.session(SessionRecord(id=id, started_at=1.0, **more)).result(10)

    def call(self, session, seq, prompt, completion, *, logprobs=None, messages=None, answer=None, **more):
        """One recorded call; its id is <session>-<seq>[-<choice>]."""
        choice = more.get("choice_index", 0)
        if logprobs is None and completion is not None:
            logprobs = [-0.125 * (i + 1) for i in range(len(completion))]
        record = CallRecord(
            id=more.pop("id", f"{session}-{seq}" + (f"-{choice}" if choice else "")),
            session_id=session,
            seq=seq,
            dialect="openai_chat",
            host="api.openai.com",
            path="/v1/chat/completions",
            status=more.pop("status", "ok"),
            trainable=more.pop("trainable", completion is not None),
            streamed=False,
            started_at=2.0 + seq,
            finished_at=2.5 + seq,
            prompt_ids=prompt,
            completion_ids=completion,
            logprobs=logprobs,
            prompt_tokens=None if prompt is None else len(prompt),
            completion_tokens=more.pop("completion_tokens", None if completion is None else len(completion)),
            finish_reason=more.pop("finish_reason", "stop"),
            model_served="tiny",
            sampling=more.pop("sampling", {"temperature": 0.7}),
            chat_request=json.dumps({"messages": messages or ASKED, "tools": TOOLS}).encode(),
            message=json.dumps(answer or {"role": "assistant", "content": "x"}).encode(),
            **more,
        )
        self.writer.call([record]).result(10)
        return record.id

    def two_turns(self, session, *, reward=None, **more):
        """A session of two exact turns with a tool call; 5 sampled tokens."""
        self.session(session, **more)
        first, turn = opening(20), [50, 51, END]
        self.call(session, 0, first, turn, messages=ASKED, answer=CALLED, finish_reason="tool_calls", policy_version=3)
        self.call(
            session,
            1,
            first + turn + then(60),
            [52, END],
            messages=[*ASKED, CALLED, RESULT],
            answer=ANSWER,
            parent_call_id=f"{session}-0",
            prefix_len=len(first) + 3,
            policy_version=4,
        )
        if reward is not None:
            self.reward(session, reward)

    def reward(self, session, value, **more):
        time.sleep(0.001)  # created_at tells them apart
        return self.store.add_reward(session, value, **more)

    def run(self, *arguments, status=0):
        """The command's result; its status is checked."""
        arguments = [*map(str, arguments), "--db", str(self.path), "--home", str(self.path) + ".home"]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == status, result.output + repr(result.exception)
        return result

    def json(self, *arguments, status=0):
        return json.loads(self.run(*arguments, "--json", status=status).stdout)

    def rows(self, query):
        columns, rows = self.store.sql(query)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def samples(self, what="*", where="1=1"):
        return self.rows(f"SELECT {what} FROM samples WHERE {where} ORDER BY strategy, session_id, branch")
