"""Which sample is next, what is tried again, and when a group is complete; with a bench that makes nothing."""

import asyncio

import pytest

from polar_capture.rollout.conductor import Conductor, EngineWatch, Orders
from polar_capture.rollout.problems import EngineGone, InfrastructureFault
from polar_capture.rollout.progress import Board, Note, Prior, Result
from polar_capture.rollout.tasks import checked


def result(slot, number, reward=1.0):
    return Result(
        session_id=slot.session(number),
        task_id=slot.task.id,
        group_id=slot.group_id,
        sample_index=slot.index,
        status="completed",
        reward=reward,
        attempt=number,
        tokens=5,
    )


class FakeBench:
    """`faults` is how often each (task, index) fails before it works."""

    def __init__(self, faults=None, judged=True):
        self.faults = dict(faults or {})
        self.judged = judged
        self.done, self.abandoned, self.most, self.now = [], [], 0, 0

    async def sample(self, slot, number):
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0.001)
        finally:
            self.now -= 1
        key = slot.task.id, slot.index
        if self.faults.get(key, 0):
            self.faults[key] -= 1
            fault = InfrastructureFault("broken")
            fault.number = number
            raise fault
        self.done.append(slot.session(number))
        return result(slot, number)

    async def judge(self, slot, note):
        return result(slot, note.attempt, reward=0.5) if self.judged else None

    async def abandon(self, slot, note):
        self.abandoned.append(slot.session(note.attempt))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Waits between attempts are not what is tested."""
    sleep = asyncio.sleep
    monkeypatch.setattr("polar_capture.rollout.conductor.asyncio.sleep", lambda seconds: sleep(0))


async def conduct(bench, tasks=2, samples=3, priors=None, parallel=2, retries=2, healthy=None, patience=0.0):
    given = checked([{"id": f"t{n}", "prompt": "p"} for n in range(tasks)])
    orders = Orders(name="r", tasks=given, samples=samples, parallel=parallel, retries=retries)
    every = {(task.id, index): Prior() for task in given for index in range(samples)} | (priors or {})
    board = Board(given, samples)
    conductor = Conductor(orders, bench, every, board, EngineWatch(healthy, patience))
    return [group async for group in conductor.groups()], board


def note(attempt=0):
    return Note(name="r", task="", agent="a", stage="evaluate", attempt=attempt)


async def test_every_group_is_given_once_with_its_samples_in_order():
    bench = FakeBench()
    groups, board = await conduct(bench, tasks=3, samples=4, parallel=5)
    assert sorted(group.group_id for group in groups) == ["r.t0", "r.t1", "r.t2"]
    assert all([r.sample_index for r in group.results] == [0, 1, 2, 3] for group in groups)
    assert bench.most == 5
    assert board.counts()["done"] == 12
    assert board.tokens == 60


async def test_a_fault_is_tried_again_under_a_new_name_and_no_oftener_than_told():
    bench = FakeBench({("t0", 1): 2, ("t1", 0): 9})
    groups, board = await conduct(bench, retries=2)
    by_id = {group.task.id: group.results for group in groups}
    assert by_id["t0"][1].session_id == "r.t0.1.r2"
    assert (by_id["t1"][0].status, by_id["t1"][0].reward) == ("abandoned", None)
    assert "broken (after 3 attempts)" in by_id["t1"][0].error
    assert board.retries == 5


async def test_what_is_finished_is_not_made_again_and_what_was_interrupted_gets_a_new_number():
    slot_result = Result(session_id="r.t0.0", task_id="t0", group_id="r.t0", sample_index=0, status="completed")
    priors = {("t0", 0): Prior(result=slot_result), ("t0", 1): Prior(stale=[note(0)], attempt=1)}
    bench = FakeBench()
    groups, board = await conduct(bench, tasks=1, samples=2, priors=priors)
    assert bench.done == ["r.t0.1.r1"]
    assert bench.abandoned == ["r.t0.1"]
    assert board.earlier == 1
    assert [r.session_id for r in groups[0].results] == ["r.t0.0", "r.t0.1.r1"]


@pytest.mark.parametrize(("judged", "rewards", "made"), [(True, [0.5], []), (False, [1.0], ["r.t0.0.r1"])])
async def test_a_missing_evaluation_is_made_up_where_its_workspace_is_there(judged, rewards, made):
    bench = FakeBench(judged=judged)
    groups, _ = await conduct(bench, tasks=1, samples=1, priors={("t0", 0): Prior(unjudged=note(0), attempt=1)})
    assert groups[0].rewards == rewards
    assert bench.done == made


async def test_after_a_fault_nothing_starts_until_the_engine_answers():
    asked = []

    def healthy():
        asked.append(True)
        return len(asked) > 3

    groups, _ = await conduct(FakeBench({("t0", 0): 1}), tasks=1, samples=1, healthy=healthy, patience=60.0)
    assert groups[0].rewards == [1.0]
    assert len(asked) == 4


async def test_an_engine_that_stays_away_ends_the_rollout():
    with pytest.raises(EngineGone, match="run the same command"):
        await conduct(FakeBench({("t0", 0): 1}), healthy=lambda: False, patience=-1.0)


async def test_when_it_is_closed_early_nothing_goes_on():
    bench = FakeBench()
    given = checked([{"id": "t0", "prompt": "p"}, {"id": "t1", "prompt": "p"}])
    orders = Orders(name="r", tasks=given, samples=1, parallel=1)
    priors = {(task.id, 0): Prior() for task in given}
    groups = Conductor(orders, bench, priors, Board(given, 1), EngineWatch(None, 0)).groups()
    async for _ in groups:
        break
    await groups.aclose()
    made = len(bench.done)
    await asyncio.sleep(0)
    assert len(bench.done) == made <= 2
    assert bench.now == 0
