"""Sessions of the merge area through a real proxy: what the gateway records is what the builders need."""

import asyncio
import json

import pytest

from polar_capture import datasets
from polar_capture.builds import build
from polar_capture.store import open as open_store
from tests.double import Double, Step
from tests.proxying import proxy
from tests.unit.trajectories.builders import END, opening, then

URL = "https://api.openai.com/v1/chat/completions"
FIRST, TURN = opening(20), [50, 51, END]
pytestmark = pytest.mark.timeout(120)

# (prompt, completion) of each call → (trained tokens, break, at) of each sample
SESSIONS = {
    "o-merge-01": (
        [(FIRST, TURN), (FIRST + TURN + then(60), [52, END])],
        [(5, None, None)],
    ),
    "o-merge-02": (
        [(FIRST, [71, 72, END]), ([*FIRST, 73, 74, END, *then(61, role=10)], [54, END])],
        [(3, None, None), (2, "retokenised", 8)],
    ),
    "o-merge-04": (
        [
            (FIRST, [50, END]),
            (opening(21), [51, END]),
            ([*FIRST, 50, END, *then(22, role=10)], [52, END]),
            ([*opening(21), 51, END, *then(23, role=10)], [53, END]),
        ],
        [(4, None, None), (4, "history_edited", 2)],
    ),
    "o-merge-05": (
        [
            (FIRST, TURN),
            (FIRST + TURN + then(60), [52, END]),
            (opening(20, 29), [80, 81, END]),
            ([900, 10, 80, 81, END, 198, 900, 11, 198], [55, END]),
        ],
        [(5, None, None), (3, "history_edited", 3), (2, "history_edited", 2)],
    ),
    "o-merge-06": (
        [
            (FIRST, [30, 33, 34, 31, 50, END]),
            ([*FIRST, 50, END, *then(27, role=10)], [30, 35, 31, 51, END]),
        ],
        [(6, None, None), (5, "thinking_dropped", 8)],
    ),
    "o-merge-10": (
        [
            (FIRST, TURN),
            (FIRST + TURN + then(60), [52, END]),
            ([*FIRST, *TURN, *then(99), 52, END, *then(22, role=10)], [56, END]),
        ],
        [(5, None, None), (2, "history_edited", 14)],
    ),
}


def step(prompt, completion, **more):
    logprobs = [-0.1 * (i + 1) for i in range(len(completion))]
    return Step(content="x", prompt_token_ids=prompt, token_ids=completion, logprobs=logprobs, **more)


async def talk(running, turns, session="s"):
    """An agent that appends each answer to its history."""
    said = [{"role": "user", "content": "hi"}]
    for turn in range(turns):
        status, body, _ = await running.answer("POST", URL, session=session, json={"model": "m", "messages": said})
        assert status == 200, body
        said.append(json.loads(body)["choices"][0]["message"])
        said.append({"role": "user", "content": f"go {turn}"})
    await running.calls(session)


def built(running):
    """(report of the one session, its samples as `datasets.load` gives them)."""
    url = running.runtime.config.db
    with open_store(url, create=False) as captured:
        report = build(captured).sessions[0]
    return report, datasets.load(url, "SELECT * FROM samples ORDER BY branch")


@pytest.mark.parametrize("case", SESSIONS)
async def test_a_field_session_gives_its_samples(case):
    calls, expected = SESSIONS[case]
    async with Double([Step(content="probe")]) as vllm, proxy(vllm.url) as running:
        vllm.push(*(step(*call) for call in calls))
        await talk(running, len(calls))
        report, samples = await asyncio.to_thread(built, running)
    found = []
    for sample in samples:
        first = sample["breaks"][0] if sample["breaks"] else {"break": None, "at": None}
        found.append((sum(sample["loss_mask"]), first["break"], first["at"]))
        for span in sample["turn_spans"]:
            prompt, completion = next(c for c in calls if c[1] == sample["input_ids"][span["start"] : span["end"]])
            assert sample["input_ids"][: span["end"]] == prompt + completion
    assert found == expected
    assert report.trained_tokens == report.sampled_tokens == sum(len(c[1]) for c in calls)


async def test_of_a_retry_the_delivered_attempt_trains_with_what_follows():
    """The client leaves during the first attempt and asks again; the reference loses all that follows."""
    async with Double([Step(content="probe")]) as vllm, proxy(vllm.url) as running:
        vllm.push(step(FIRST, [40, END], delay=30.0), step(FIRST, TURN), step(FIRST + TURN + then(60), [52, END]))
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await running.answer("POST", URL, session="s", json=body)
        await talk(running, 2)
        report, samples = await asyncio.to_thread(built, running)
    (sample,) = samples
    trained = [i for i, m in zip(sample["input_ids"], sample["loss_mask"], strict=True) if m]
    assert trained == [*TURN, 52, END]
    assert sample["verdict"] == "exact"
    assert report.delivered_fraction == 1.0
    assert report.missing_seqs == []


async def test_a_call_without_ids_is_a_gap():
    second = [*FIRST, *TURN, *then(60)]
    async with Double([Step(content="probe")]) as vllm, proxy(vllm.url) as running:
        vllm.push(
            step(FIRST, TURN), Step(content="x", missing=["prompt_token_ids", "token_ids"]), step(second, [52, END])
        )
        await talk(running, 3)
        report, samples = await asyncio.to_thread(built, running)
    assert [sum(sample["loss_mask"]) for sample in samples] == [3, 2]
    assert report.reasons["ids_missing"] == 1
    assert report.breaks == {"capture_gap": 1}
