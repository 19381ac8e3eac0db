"""A small database made by the store's own writer, and commands over it."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from polar_capture import store
from polar_capture.cli import main
from polar_capture.store.records import CallRecord, SessionRecord

PROMPT, SAMPLED, PROBABLE = [1, 2, 3], [4, 5], [-0.5, -0.25]


def call(number: int, **changes: Any) -> CallRecord:
    """A sound turn of session `s-1`: each extends the one before it."""
    given = {
        "id": f"call-{number}",
        "session_id": "s-1",
        "seq": number,
        "dialect": "openai_chat",
        "host": "api.openai.com",
        "path": "/v1/chat/completions",
        "status": "ok",
        "trainable": True,
        "streamed": False,
        "started_at": 1000.0 + number,
        "finished_at": 1000.5 + number,
        "finish_reason": "stop",
        "model_requested": "gpt-x",
        "prompt_ids": PROMPT + SAMPLED * number,
        "completion_ids": SAMPLED,
        "logprobs": PROBABLE,
        "prompt_tokens": len(PROMPT) + len(SAMPLED) * number,
        "completion_tokens": len(SAMPLED),
        "parent_call_id": f"call-{number - 1}" if number else None,
        "request": json.dumps({"messages": [{"role": "user", "content": f"question {number}"}]}).encode(),
        "chat_request": b'{"model": "m"}',
        "message": json.dumps({"role": "assistant", "content": f"answer {number} \x1b[2J\ud83d"}).encode(),
        **changes,
    }
    return CallRecord(**given)


FAULTY = call(
    2,
    status="error",
    trainable=False,
    reason="upstream_error",
    error="engine is down",
    warnings=["unmapped_fields"],
    unmapped=["$.a", "$.b"],
    prompt_ids=None,
    completion_ids=None,
    logprobs=None,
    prompt_tokens=None,
    completion_tokens=None,
    finish_reason=None,
    message=None,
)


class Stage:
    """A database with session s-1 (two turns and an error) and an empty s-2, both of group g-1."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = folder / "polar.db"
        with store.open(self.db, spool=folder / "spool") as captured:
            writer = captured.writer()
            for session, started in (("s-1", 1000.0), ("s-2", 2000.0)):
                record = SessionRecord(session, started, task_id="t-1", group_id="g-1", extra={"exit_status": 0})
                writer.session(record).result(10)
            for record in (call(0), call(1), FAULTY):
                writer.call([record]).result(10)
            captured.add_reward("s-2", 0.5)

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, "--db", str(self.db), "--home", str(self.folder / "home")])

    def json(self, *arguments: str) -> Any:
        done = self.run(*arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)
