"""Exact continuation on the real vLLM: every context that was sampled in, token by token, under many templates."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from polar_capture import builds
from polar_capture import store as stores
from polar_capture.continuation.reasons import Fork
from polar_capture.engine_scoring import Engine as Scorer
from polar_capture.outcomes import Warning
from polar_capture.verification import Verification, verify
from tests.engine.continuation_stage import ask, conversations, served_with
from tests.proxying import Proxy, proxy
from tools.engine.serve import Running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

THOUGHT = re.compile(r"<think>(?:(?!<\|im_end\|>).)*?</think>\s*", re.DOTALL)
"""What templates leave out of earlier turns: thoughts, and the empty one that opens an answer where thinking is off."""

MARK = re.compile(r"\s*(?:</think>)?\s*")
"""What may be left to write of the end of a thought."""

EXPECTED: dict[str, set[Fork]] = {
    "thinks": set(),
    "coder": set(),
    "default_system": set(),
    "last_thought": set(),
    "outputs": {Fork.TEMPLATE},
    "roles": {Fork.CUT_THOUGHT, Fork.END_OF_TURN},
    "tools_late": {Fork.TEMPLATE},
}
"""The templates that can be continued, and why a turn of a conversation that nobody edits may fork all the same."""

OTHERS = {path.stem: path for path in sorted(Path(os.environ.get("POLAR_TEMPLATES", "/nowhere")).glob("*.jinja"))}
"""Templates of real models, from a folder of one's own (templates/README.md)."""


class Texts:
    """The served tokenizer, asked for texts and renders."""

    def __init__(self, url: str) -> None:
        self._url = url

    def of(self, ids: list[int]) -> str:
        return requests.post(f"{self._url}/detokenize", json={"tokens": ids}, timeout=30).json()["prompt"]

    def ids(self, text: str) -> list[int]:
        body = {"prompt": text, "add_special_tokens": False}
        return requests.post(f"{self._url}/tokenize", json=body, timeout=30).json()["tokens"]

    def plain(self, row: dict[str, Any]) -> str:
        """The template's own render of what a call was asked."""
        sent = json.loads(row["chat_request"])
        wanted = {name: sent[name] for name in ("messages", "tools", "chat_template_kwargs") if name in sent}
        return self.of(requests.post(f"{self._url}/tokenize", json=wanted, timeout=30).json()["tokens"])


def check_chain(rows: dict[str, dict[str, Any]], row: dict[str, Any], texts: Texts) -> None:
    """A continued call's prompt is its parent's prompt + completion + tail, and what nobody sampled of it stands in the
    plain render, in the same order and up to the same end."""
    written: list[str] = []
    tip = row
    while tip["continuation"] == "exact":
        parent = rows[tip["parent_call_id"]]
        context = parent["prompt_ids"] + parent["completion_ids"]
        assert tip["prompt_ids"][: len(context)] == context
        assert tip["prefix_len"] == len(context)
        tail = tip["prompt_ids"][len(context) :]
        assert tail
        written.insert(0, without_mark(texts.of(tail), parent))
        tip = parent
    written.insert(0, texts.of(tip["prompt_ids"]))
    plain = texts.plain(row)
    assert plain.endswith(written[-1])
    # An opening's last blanks belong to the answer: templates strip those of an empty one.
    inserted = [re.escape(THOUGHT.sub("", part).rstrip()) for part in written]
    assert re.match(".*?".join(inserted), THOUGHT.sub("", plain), re.DOTALL), (written, plain)


def without_mark(tail: str, parent: dict[str, Any]) -> str:
    """A tail without what closes a thought that was cut: the plain render drops it with the thought."""
    message = json.loads(parent["message"])
    if parent["finish_reason"] != "length" or message.get("content") or message.get("tool_calls"):
        return tail
    mark = MARK.match(tail)
    assert mark is not None, tail
    return tail[mark.end() :]


async def rows_of(running: Proxy, sessions: list[str]) -> list[dict[str, Any]]:
    return [row for session in sessions for row in await running.calls(session)]


@pytest.mark.parametrize("template", [*EXPECTED, *OTHERS])
async def test_every_turn_of_an_unedited_history_is_continued_or_says_why_not(roles: Running, template: str):
    marked = template == "roles" or template.startswith("glm")
    expected = EXPECTED["roles" if marked else template if template in EXPECTED else "thinks"]
    template = str(OTHERS.get(template, template))
    # The markers of GLM's kind are none that the driver model has learned to say: they are made likely.
    bias: dict[str, Any] = {}
    if marked:
        (end,), (user,), (result,) = map(Texts(roles.url).ids, ("<|im_end|>", "<|user|>", "<|observation|>"))
        bias = {"logit_bias": {str(end): -100, str(user): 9, str(result): 9}}
    async with served_with(roles.url, template) as url, proxy(url) as running:
        sessions = await conversations(running, 16, turns=5, **bias)
        rows = await rows_of(running, sessions)
    outcomes = Counter(row["continuation"] for row in rows)
    by_id = {row["id"]: row for row in rows}
    assert outcomes["root"] == len(sessions)
    assert outcomes["exact"] >= 8, outcomes
    print(f"\n{template}: {dict(outcomes)}")
    assert set(outcomes) <= {"root", "exact", *(fork.stored for fork in expected)}, outcomes
    assert all(row["trainable"] and Warning.PROMPT_IDS_IGNORED not in row["warnings"] for row in rows)
    async with served_with(roles.url, template) as url:
        texts = Texts(url)
        for row in rows:
            if row["continuation"] == "exact":
                await asyncio.to_thread(check_chain, by_id, row, texts)


async def test_a_template_that_rewrites_its_head_is_never_continued(roles: Running):
    async with served_with(roles.url, "counted") as url, proxy(url) as running:
        rows = await rows_of(running, await conversations(running, 6))
    assert {row["continuation"] for row in rows} == {"root", Fork.NOT_APPEND_ONLY.stored}


def rescored(running: Proxy, url: str) -> tuple[Verification, Counter[str]]:
    store = stores.open(running.runtime.config.db, create=False)
    try:
        report = builds.build(store).total()
        return verify(store, rescore=Scorer(url), tolerance=1e-3), report.verdicts
    finally:
        store.close()


async def test_200_random_conversations_are_merged_and_score_again_the_same(roles: Running):
    """Qwen3's habit, at temperature 1, with tools, thoughts, unicode and cut answers."""
    template = str(OTHERS.get("qwen3", "thinks"))
    async with served_with(roles.url, template) as url, proxy(url) as running:
        sessions = await conversations(running, 200)
        rows = await rows_of(running, sessions)
        report, verdicts = await asyncio.to_thread(rescored, running, roles.url)
        by_id, texts = {row["id"]: row for row in rows}, Texts(url)
        for row in rows[::3]:
            if row["continuation"] == "exact":
                await asyncio.to_thread(check_chain, by_id, row, texts)
        command = [sys.executable, "-m", "polar_capture", "verify", "--db", running.runtime.config.db]
        told = await asyncio.to_thread(
            subprocess.run, [*command, "--rescore", roles.url], capture_output=True, text=True, timeout=600
        )
    outcomes = Counter(row["continuation"] for row in rows)
    cut = sum(row["finish_reason"] == "length" for row in rows)
    print(f"\n{template}: {len(rows)} calls, {cut} cut: {dict(outcomes)}; samples {dict(verdicts)}")
    print(
        f"worst difference {report.worst.difference:.2e}, mean {report.mean_difference:.2e}\n{told.stdout}{told.stderr}"
    )
    assert outcomes == {"root": 200, "exact": 600}
    assert told.returncode == 0
    assert report.holds, report.findings
    assert report.rescored_tokens == report.trained_tokens == sum(row["completion_tokens"] for row in rows)
    assert report.worst.difference < 1e-3


async def thoughtful(running: Proxy) -> list[dict[str, Any]]:
    """A thought, then a new question: the template drops the thought, and so does the harness."""
    messages = [{"role": "user", "content": "Say a direction"}]
    for _ in range(2):
        answer = await ask(running, "s1", messages, temperature=1.0)
        messages += [
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": "Say a direction"},
        ]
    first, second = await running.calls()
    assert json.loads(first["message"])["reasoning"]
    return [first, second]


@pytest.mark.parametrize("continuation", ["auto", "off"])
async def test_what_is_merged_across_a_dropped_thought_is_only_true_with_continuation(
    roles: Running, continuation: str
):
    """The negative control: merging by the messages puts the second answer behind a thought that it was sampled
    without, and scoring again tells."""
    async with served_with(roles.url, "thinks") as url, proxy(url, continuation=continuation) as running:
        first, second = await thoughtful(running)
    merged = first["prompt_ids"] + first["completion_ids"]
    text = Texts(roles.url).of(second["prompt_ids"])
    question = text[text.rindex("<|im_start|>user") :]
    merged += Texts(roles.url).ids("\n" + question) + second["completion_ids"]
    scores = await asyncio.to_thread(Scorer(roles.url).logprobs, merged)
    difference = np.abs(scores[-len(second["logprobs"]) :] - np.array(second["logprobs"])).max()
    print(f"\n--continuation {continuation}: merged tokens differ by up to {difference:.2e} when they are scored again")
    if continuation == "auto":
        assert second["continuation"] == "exact"
        assert second["prompt_ids"] + second["completion_ids"] == merged
        assert difference < 1e-3
    else:
        assert second["continuation"] == "off"
        assert second["prompt_ids"] + second["completion_ids"] != merged
        assert difference > 1e-2


async def test_the_template_may_have_its_way_with_thoughts(roles: Running):
    async with (
        served_with(roles.url, "thinks") as url,
        proxy(url, continuation_thinking="template") as running,
    ):
        sessions = await conversations(running, 10)
        rows = await rows_of(running, sessions)
        _, second = await thoughtful(running)
    assert second["continuation"] == Fork.THINKING_STRIPPED.stored
    by_id = {row["id"]: row for row in rows}
    outcomes = Counter(row["continuation"] for row in rows)
    assert outcomes["exact"] > 0
    assert outcomes[Fork.THINKING_STRIPPED.stored] > 0
    for row in rows:
        if row["continuation"] == "exact":
            # What is continued is what the template would have rendered, thoughts and all.
            parent = by_id[row["parent_call_id"]]
            roles_of_new = [m["role"] for m in json.loads(row["chat_request"])["messages"]]
            new = roles_of_new[len(json.loads(parent["chat_request"])["messages"]) + 1 :]
            assert "user" not in new or not json.loads(parent["message"]).get("reasoning")


async def test_a_session_goes_on_exactly_in_a_new_process(roles: Running, tmp_path):
    db = f"sqlite:///{tmp_path}/polar.db"
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Say a direction"}]
    for _ in range(3):
        async with served_with(roles.url, "thinks") as url, proxy(url, db=db) as running:
            for _ in range(2):
                answer = await ask(running, "s1", messages)
                messages += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": "Hello."}]
            rows = await running.calls()
    assert [row["continuation"] for row in rows] == ["root"] + ["exact"] * 5
