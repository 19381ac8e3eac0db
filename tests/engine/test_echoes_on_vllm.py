"""What we emit, said back as each harness says it, before a real vLLM with a template of Qwen3's kind: the next prompt
extends the last prompt and completion, or the break is recorded on the call."""

import asyncio
import itertools
import json
from collections import Counter

import pytest

from polar_capture import builds
from polar_capture import store as stores
from tests.echoes import HARNESSES, shared
from tests.proxying import Proxy, proxy

TURNS = ("Write polar into proof.txt, use the tool bash", "Say a direction")


async def converse(running: Proxy, harness: str) -> None:
    """A tool call, its result, the answer, and a second question."""
    api, echo = HARNESSES[harness]
    asked = list(TURNS)
    history = api.asked(asked.pop(0))
    while True:
        status, body, _ = await running.answer("POST", api.url, json=api.body(history, "bash"), session=harness)
        assert status == 200, body
        answer = json.loads(body)
        results = api.results(answer, "(no output)")
        history += api.echoed(answer, echo)
        if not results and not asked:
            return
        history += results or api.asked(asked.pop(0))


@pytest.mark.parametrize("mode", ["off", "auto"])
async def test_every_harness_goes_on_from_what_was_sampled(vllm: str, mode: str):
    async with proxy(vllm, continuation=mode) as running:
        for batch in itertools.batched(HARNESSES, 4):
            await asyncio.gather(*(converse(running, harness) for harness in batch))
        conversations = {harness: await running.calls(harness) for harness in HARNESSES}
        with stores.open(running.runtime.config.db, create=False) as store:
            report = builds.build(store).total()
    outcomes: Counter[str] = Counter()
    for harness, rows in conversations.items():
        assert len(rows) == 3, harness
        for before, row in itertools.pairwise(rows):
            context = before["prompt_ids"] + before["completion_ids"]
            common = shared(context, row["prompt_ids"])
            whole = common == len(context)
            assert (row["parent_call_id"], row["prefix_len"]) == (before["id"], common), harness
            assert whole or mode == "off" or row["continuation"].startswith("fork:"), (harness, row["continuation"])
            outcomes["whole" if whole else "broken"] += 1
        tool_call, done, _ = rows
        assert done["prompt_ids"][: len(tool_call["prompt_ids"])] == tool_call["prompt_ids"]
    assert outcomes["whole"] >= len(HARNESSES), outcomes
    if mode == "auto":
        assert outcomes["broken"] == 0, outcomes
    else:
        assert sum(report.breaks.values()) >= outcomes["broken"], "each break of the tree has its kind"
