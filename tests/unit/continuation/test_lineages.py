"""What becomes of a conversation that is retried, branched, compacted, edited or delegated: through the whole proxy."""

import asyncio
import json
from typing import Any

from polar_capture.continuation.reasons import Fork
from tests.double import Double, Step
from tests.proxying import Proxy, proxy

CHAT = "https://api.openai.com/v1/chat/completions"
LS = {"type": "function", "function": {"name": "ls", "parameters": {"type": "object", "properties": {}}}}
CAT = {"type": "function", "function": {"name": "cat", "parameters": {"type": "object", "properties": {}}}}
THINKS = Step(reasoning="hm", content="fine")


class Client:
    """A harness that keeps text: a list of messages, without the thoughts."""

    def __init__(self, running: Proxy, *said: dict[str, Any], session: str = "s1") -> None:
        self._running, self.session = running, session
        self.messages: list[dict[str, Any]] = list(said)
        self.tools = [LS]

    def says(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    async def ask(self, *, take_up: bool = True, headers: dict[str, str] | None = None) -> dict[str, Any]:
        body = {"model": "m", "messages": self.messages, "tools": self.tools}
        status, answer, _ = await self._running.answer(
            "POST", CHAT, json=body, session=self.session, headers=headers or {}
        )
        assert status == 200, answer
        message = json.loads(answer)["choices"][0]["message"]
        if take_up:
            echo = {"role": "assistant", "content": message["content"]}
            if message.get("tool_calls"):
                echo["tool_calls"] = message["tool_calls"]
            self.messages.append(echo)
        return message


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def context(row: dict[str, Any]) -> list[int]:
    return row["prompt_ids"] + row["completion_ids"]


def continues(row: dict[str, Any], parent: dict[str, Any]) -> bool:
    """Whether a call is exact and its prompt is the parent's prompt, completion and more."""
    whole = context(parent)
    found = (row["continuation"], row["parent_call_id"], row["prefix_len"], row["prompt_ids"][: len(whole)])
    return found == ("exact", parent["id"], len(whole), whole)


def double() -> Double:
    return Double(lambda _body, number: THINKS if number >= 0 else None, strips_thinking=True)


async def retried(running: Proxy) -> list[dict[str, Any]]:
    """A turn, one whose answer the client never took, its retry, and a turn behind the retry."""
    client = Client(running, user("hi"))
    await client.ask()
    client.says("go")
    await client.ask(take_up=False)
    await client.ask(headers={"x-stainless-retry-count": "1"})
    client.says("on")
    await client.ask()
    return await running.calls()


async def test_a_retried_call_continues_the_same_parent_exactly():
    async with double() as vllm, proxy(vllm.url) as running:
        first, lost, again, last = await retried(running)
    assert continues(lost, first)
    assert continues(again, first)
    assert again["prompt_ids"] == lost["prompt_ids"]
    assert continues(last, again) or continues(last, lost), "equal answers: either is the parent"


async def test_a_retry_that_says_something_else_is_what_is_continued():
    answers = iter(["one", "two", "three", "four"])
    async with (
        Double(lambda _body, number: Step(content=next(answers)) if number else None) as vllm,
        proxy(vllm.url) as running,
    ):
        first, lost, again, last = await retried(running)
    assert continues(lost, first)
    assert continues(again, first)
    assert continues(last, again)
    assert last["prompt_ids"][: len(context(lost))] != context(lost)


async def test_a_call_that_failed_is_retried_from_the_same_parent():
    broken = Step(status=500, error="EngineCore encountered an issue.")
    async with (
        Double(lambda _body, number: broken if number == 2 else THINKS, strips_thinking=True) as vllm,
        proxy(vllm.url) as running,
    ):
        client = Client(running, user("hi"))
        await client.ask()
        client.says("go")
        body = {"model": "m", "messages": client.messages, "tools": client.tools}
        status, _, _ = await running.answer("POST", CHAT, json=body)
        assert status >= 500
        await client.ask()
        first, failed, again = await running.calls()
    assert (failed["status"], failed["trainable"]) == ("error", False)
    assert continues(again, first)


async def test_parallel_branches_of_one_turn_are_each_continued():
    async with double() as vllm, proxy(vllm.url) as running:
        trunk = Client(running, user("hi"))
        await trunk.ask()
        branches = [Client(running, *trunk.messages, user(f"way {n}")) for n in range(4)]

        async def walk(branch: Client) -> None:
            await branch.ask()
            branch.says("on")
            await branch.ask()

        await asyncio.gather(*map(walk, branches))
        first, *rows = await running.calls()
    by_id = {row["id"]: row for row in (first, *rows)}
    assert sum(continues(row, first) for row in rows) == 4
    assert all(continues(row, by_id[row["parent_call_id"]]) for row in rows)


async def test_a_compacted_conversation_starts_anew_and_is_continued_from_there():
    async with double() as vllm, proxy(vllm.url) as running:
        client = Client(running, user("hi"))
        for _ in range(2):
            await client.ask()
            client.says("go")
        client.messages = [user("This is what was done so far: nothing."), user("go")]
        await client.ask()
        client.says("on")
        await client.ask()
        _, _, root, last = await running.calls()
    assert root["continuation"] == "root"
    assert continues(last, root)


async def test_a_compaction_that_keeps_the_last_turns_forks_and_goes_on():
    async with double() as vllm, proxy(vllm.url) as running:
        client = Client(running, user("hi"))
        for _ in range(3):
            await client.ask()
            client.says("go")
        client.messages = [user("Summary of it all."), *client.messages[-2:]]
        await client.ask()
        client.says("on")
        await client.ask()
        *_, fork, last = await running.calls()
    assert fork["continuation"] == Fork.HISTORY_EDITED.stored
    assert continues(last, fork)


async def test_an_edited_history_forks_once():
    async with double() as vllm, proxy(vllm.url) as running:
        client = Client(running, user("hi"))
        await client.ask()
        client.says("go")
        client.messages[0]["content"] = "hi (the files are now: a.txt, b.txt)"
        await client.ask()
        client.says("on")
        await client.ask()
        _, fork, last = await running.calls()
    assert fork["continuation"] == Fork.HISTORY_EDITED.stored
    assert continues(last, fork)


async def test_another_list_of_tools_forks_once():
    async with double() as vllm, proxy(vllm.url) as running:
        client = Client(running, user("hi"))
        await client.ask()
        client.says("go")
        client.tools = [LS, CAT]
        await client.ask()
        client.says("on")
        await client.ask()
        _, fork, last = await running.calls()
    assert fork["continuation"] == Fork.TOOLS_CHANGED.stored
    assert continues(last, fork)


async def test_a_subagent_has_a_chain_of_its_own_and_its_parent_goes_on():
    spawns = Step(reasoning="a part", content=None, tool_calls=[{"name": "ls", "arguments": {}}])
    async with (
        Double(lambda _body, number: spawns if number == 1 else THINKS, strips_thinking=True) as vllm,
        proxy(vllm.url) as running,
    ):
        main = Client(running, {"role": "system", "content": "You lead."}, user("hi"))
        call = (await main.ask())["tool_calls"][0]
        sub = Client(running, {"role": "system", "content": "You do a part."}, user("the part"))
        await sub.ask()
        sub.says("on")
        await sub.ask()
        main.messages.append({"role": "tool", "tool_call_id": call["id"], "content": "fine"})
        await main.ask()
        led, started, worked, done = await running.calls()
    assert [row["continuation"] for row in (led, started)] == ["root", "root"]
    assert continues(worked, started)
    assert continues(done, led)


async def test_a_session_is_resumed_in_a_new_process_in_all_its_branches(tmp_path):
    db = f"sqlite:///{tmp_path}/polar.db"
    async with double() as vllm:
        async with proxy(vllm.url, db=db) as running:
            client = Client(running, user("hi"))
            await client.ask()
        for number in range(2):
            async with proxy(vllm.url, db=db) as running:
                branch = Client(running, *client.messages, user(f"way {number}"))
                await branch.ask()
                branch.says("on")
                await branch.ask()
                rows = await running.calls()
    first, left, left_on, right, right_on = rows
    assert continues(left, first)
    assert continues(left_on, left)
    assert continues(right, first)
    assert continues(right_on, right)
