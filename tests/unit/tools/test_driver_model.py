"""The lessons of the driver model, and the chat template that has to write them the same way."""

import json
from collections import Counter
from typing import Any

import jinja2
import pytest

from tools.engine.driver_model import chat_format
from tools.engine.driver_model.chat_format import ANSWER_START, CHAT_TEMPLATE, NO_THOUGHT, TURN_END
from tools.engine.driver_model.lessons import DIRECTIONS, SHELL_TOOLS, Lesson, Teacher


class TemplateOnly:
    """Renders the template as transformers does, without a tokenizer."""

    def apply_chat_template(self, messages: list[dict[str, Any]], tokenize: bool = False, **options: Any) -> str:
        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
        return environment.from_string(CHAT_TEMPLATE).render(messages=messages, **options)


def render(*messages: dict[str, Any], **options: Any) -> str:
    return TemplateOnly().apply_chat_template(list(messages), **options)


def test_template_and_lessons_agree() -> None:
    chat_format.check(TemplateOnly())


@pytest.mark.parametrize("thinking", [True, False])
def test_the_next_turns_prompt_extends_this_one(thinking: bool) -> None:
    question = {"role": "user", "content": "Go."}
    before = render(question, add_generation_prompt=True, enable_thinking=thinking)
    call = {"function": {"name": "bash", "arguments": {"command": "ls"}}}
    answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    if thinking:
        answer["reasoning"] = "\nI call.\n"
    sampled = (chat_format.thought("I call.") if thinking else "") + chat_format.tool_call("bash", {"command": "ls"})
    result = {"role": "tool", "content": "a.txt"}
    after = render(question, answer, result, add_generation_prompt=True, enable_thinking=thinking)
    assert after.startswith(before + sampled + TURN_END)


def test_tools_and_system_stand_first() -> None:
    tool = {"type": "function", "function": {"name": "bash", "parameters": {}}}
    text = render({"role": "system", "content": "Be good."}, {"role": "user", "content": "Go."}, tools=[tool])
    assert text.startswith("<|im_start|>system\nBe good.\n\n")
    assert json.dumps(tool) in text
    assert text.count("Be good.") == 1
    assert text.endswith("<|im_start|>user\nGo.<|im_end|>\n")


def test_several_tool_results_share_a_turn() -> None:
    results = [{"role": "tool", "content": "one"}, {"role": "tool", "content": "two"}]
    text = render({"role": "user", "content": "Go."}, *results)
    assert text.endswith(
        "<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response><|im_end|>\n"
    )


def test_a_later_system_message_stays_in_its_place() -> None:
    text = render({"role": "user", "content": "Go."}, {"role": "system", "content": "Note."})
    assert text.endswith("Go.<|im_end|>\n<|im_start|>system\nNote.<|im_end|>\n")


def lessons(count: int = 2000, seed: int = 3) -> list[Lesson]:
    teacher = Teacher(seed)
    return [teacher.lesson() for _ in range(count)]


def test_the_same_seed_gives_the_same_lessons() -> None:
    assert lessons(50) == lessons(50)
    assert lessons(50) != lessons(50, seed=4)


def test_lessons_are_well_formed() -> None:
    for lesson in lessons():
        assert lesson.prompt_end.endswith((ANSWER_START, ANSWER_START + NO_THOUGHT))
        assert lesson.answer.endswith(TURN_END)
        assert lesson.answer.startswith("<think>") != lesson.prompt_end.endswith(NO_THOUGHT)
        if lesson.tool:
            called = json.loads(lesson.answer.split("<tool_call>\n")[1].split("\n</tool_call>")[0])
            assert called["name"] == lesson.tool
            assert ">> proof.txt" in json.dumps(called["arguments"])


def test_every_tool_is_taught_when_it_is_named() -> None:
    taught = Counter(
        lesson.tool for lesson in lessons() if lesson.tool and f"use the tool {lesson.tool}" in lesson.prompt_end
    )
    assert set(taught) == set(SHELL_TOOLS)


def test_directions_have_equal_shares() -> None:
    teacher = Teacher(0)
    written = Counter(
        word for _ in range(400) for word in DIRECTIONS if f"echo {word}" in teacher.write_a_direction().answer
    )
    said = Counter(teacher.say_a_direction().answer.rsplit("\n", 1)[1] for _ in range(400))
    assert set(written) == set(said) == set(DIRECTIONS)
    assert set(said.values()) == {100}
