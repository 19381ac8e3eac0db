"""An engine of a few lines: templates as functions, one id a character, marks above them."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from polar_capture.chat import ChatRequest, Choice, Completion, Message, Tool, ToolCall, Usage
from polar_capture.chat_normal import normalise
from polar_capture.continuation.contexts import Context
from polar_capture.continuation.planner import Planner
from polar_capture.continuation.plans import Plan, checked
from polar_capture.continuation.reasons import ROOT
from polar_capture.faults import CallError, Fault, FaultKind
from polar_capture.lineage.turns import TurnBook

BEGIN, END, USER, ANSWER, RESULT, SYSTEM, OTHER_END = range(0x110000, 0x110007)
ROLES = {"user": USER, "assistant": ANSWER, "tool": RESULT, "system": SYSTEM}
Render = Callable[[ChatRequest, bool], list[int]]


def ids(text: str) -> list[int]:
    return [ord(character) for character in text]


def said(message: Message, *, thought: bool = True) -> list[int]:
    """The ids of an answer, as it is sampled and as it is rendered."""
    calls = "".join(f"[{call.name} {call.arguments}]" for call in message.tool_calls)
    thinks = f"({message.reasoning})" if message.reasoning and thought else ""
    return ids(f"{thinks}{message.content or ''}{calls}")


def closed(chat: ChatRequest, opens: bool) -> list[int]:
    """ChatML's kind: every message is closed, and a line ends behind it."""
    out = [SYSTEM, *ids(",".join(tool.name for tool in chat.tools)), END] if chat.tools else []
    for message in chat.messages:
        out += [ROLES[message.role], *said(message), END, ord("\n")]
    return [*out, ANSWER] if opens else out


def roles(chat: ChatRequest, opens: bool) -> list[int]:
    """GLM's kind: the next role's mark ends an answer."""
    out = [BEGIN]
    for message in chat.messages:
        out += [ROLES[message.role], *said(message)]
    return [*out, ANSWER] if opens else out


def strips(chat: ChatRequest, opens: bool) -> list[int]:
    """Qwen3's kind: thoughts before the last question are dropped; the last answer shows an empty one, had it none."""
    question = max((i for i, m in enumerate(chat.messages) if m.role == "user"), default=-1)
    out: list[int] = []
    for index, message in enumerate(chat.messages):
        empty = ids("()") if index > question and index == len(chat.messages) - 1 and not message.reasoning else []
        shown = said(message, thought=index > question)
        out += [ROLES[message.role], *(empty if message.role == "assistant" else []), *shown, END, ord("\n")]
    return [*out, ANSWER] if opens else out


def opened_thoughts(chat: ChatRequest, opens: bool) -> list[int]:
    """DeepSeek-R1's kind: the prompt opens the thought."""
    out: list[int] = []
    for message in chat.messages:
        empty = ids("()") if message.role == "assistant" and not message.reasoning else []
        out += [ROLES[message.role], *empty, *said(message), END]
    return [*out, ANSWER, ord("(")] if opens else out


def grouped(chat: ChatRequest, opens: bool) -> list[int]:
    """DeepSeek's kind: an answer behind a tool result has no mark of its own."""
    out: list[int] = []
    for index, message in enumerate(chat.messages):
        waits = opens or index < len(chat.messages) - 1
        out += [] if message.role == "assistant" else [ROLES[message.role]]
        out += said(message)
        out += [END] if message.role == "assistant" else [ANSWER] if message.role == "user" and waits else []
    return out


def counted(chat: ChatRequest, opens: bool) -> list[int]:
    """Not append-only: the number of messages stands at the top."""
    return [*ids(str(len(chat.messages))), *closed(chat, opens)]


def late_tools(chat: ChatRequest, opens: bool) -> list[int]:
    """Not append-only: the tools stand before the last question."""
    question = max(i for i, m in enumerate(chat.messages) if m.role == "user")
    head = closed(ChatRequest(messages=chat.messages[:question]), False)
    return head + closed(ChatRequest(messages=chat.messages[question:], tools=chat.tools), opens)


def marked(chat: ChatRequest, opens: bool) -> list[int]:
    """Not append-only: a note stands before the last message, and moves on with it."""
    out = closed(ChatRequest(messages=chat.messages[:-1], tools=chat.tools), False)
    return out + ids("note") + closed(ChatRequest(messages=chat.messages[-1:]), opens)


class FakeEngine:
    """What the planner asks of an engine. `renders` logs what was rendered."""

    def __init__(self, render: Render = closed, *, takes: bool = True, window: int | None = None) -> None:
        self.template = render
        self.takes = takes
        self.window = window
        self.renders: list[ChatRequest] = []
        self.fails = False

    async def render(self, chat: ChatRequest, *, add_generation_prompt: bool = True, session: str = "") -> list[int]:
        self.renders.append(chat)
        if self.fails:
            raise CallError(Fault(FaultKind.UPSTREAM, "no render today"))
        return self.template(chat, add_generation_prompt)

    def template_options(self, chat: ChatRequest, session: str = "") -> dict[str, Any]:
        return {} if chat.thinking is None else {"enable_thinking": chat.thinking}

    def takes_prompt_ids(self, session: str = "") -> str | None:
        return "http://engine" if self.takes else None

    def distrust_prompt_ids(self, url: str) -> None:
        self.takes = False


class Answered(msgspec.Struct):
    """A generation."""

    completion: Completion
    upstream: str = "http://engine"
    limit: int | None = None
    ids_refused: bool = False


class Conversation:
    """A session of one client: what it says, what is sampled, and what became of each call."""

    def __init__(self, engine: FakeEngine, planner: Planner | None = None, **options: Any) -> None:
        self.engine = engine
        self.planner = planner or Planner(engine, nothing_stored, **options)
        self.turns = TurnBook()
        self.chat = ChatRequest()
        self.outcomes: list[str] = []
        self.prompts: list[list[int]] = []
        self.contexts: list[list[int]] = []
        """Prompt + completion of each call."""

    def say(self, text: str = "and now?", role: str = "user") -> None:
        call_id = "call_1" if role == "tool" else None
        self.chat.messages.append(Message(role, text, tool_call_id=call_id))  # type: ignore[arg-type]

    async def plan(self) -> tuple[ChatRequest, Plan]:
        """What is asked, and the plan with nothing left to prove."""
        chat, plan = await self.planned()
        return chat, await checked(plan)

    async def planned(self) -> tuple[ChatRequest, Plan]:
        restored = self.turns.restore(self.chat.messages)
        chat = msgspec.structs.replace(self.chat, messages=normalise(restored.messages))
        return chat, await self.planner.plan("s", chat, restored)

    async def ask(
        self,
        answer: Message | str = "fine",
        *,
        end: int | None = END,
        finish: str = "stop",
        stop: str | int | None = None,
        echo: bool = True,
        sampled: list[int] | None = None,
        **generation: Any,
    ) -> str:
        """Sample one answer, and let the client take it up; what became of the call. `sampled` are its ids, where they
        are not those of its render."""
        chat, plan = await self.plan()
        prompt = plan.prompt_ids or self.engine.template(chat, True)
        message = Message("assistant", answer) if isinstance(answer, str) else answer
        sampled = sampled or said(message) + ([] if end is None else [end])
        choice = Choice(0, message, finish, stop, sampled, [-0.5] * len(sampled))
        completion = Completion([choice], Usage(len(prompt), len(sampled)), "m", prompt)
        answered = Answered(completion, **generation)
        outcome = self.planner.settle(plan, answered)
        number = f"call-{len(self.outcomes)}"
        self.planner.remember(number, plan, outcome, np.array(prompt, np.int32), answered)
        self.turns.add(number, [message], [f"id-{number}"])
        self.outcomes.append(outcome)
        self.prompts.append(prompt)
        self.contexts.append(prompt + sampled)
        if echo:
            back = msgspec.structs.replace(message, reasoning=None, echo=[f"id-{number}"])
            self.chat.messages.append(back)
        return outcome


async def nothing_stored(_call_id: str) -> Context | None:
    return None


def calling(*names: str, content: str | None = None, reasoning: str | None = None) -> Message:
    calls = [ToolCall(f"call_{i}", name, '{"a": 1}') for i, name in enumerate(names, 1)]
    return Message("assistant", content, reasoning=reasoning, tool_calls=calls)


def tool(name: str) -> Tool:
    return Tool(name)


async def begun(render=closed, **options) -> Conversation:
    """One that has had its first answer."""
    talk = Conversation(FakeEngine(render), **options)
    talk.say("hi")
    assert await talk.ask(Message("assistant", "hello", reasoning="hm")) == ROOT
    return talk
