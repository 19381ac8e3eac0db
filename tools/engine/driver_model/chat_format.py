"""How the driver model's conversations are written: the chat template, its marks, and the same text made by hand.

The lessons are built with `turn`, `thought` and `tool_call`; `check` proves that the template writes the very same
text, so what is learned in training is what vLLM renders and what its `hermes` and `qwen3` parsers read.
"""

from __future__ import annotations

import json
from typing import Any

PADDING, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CONTROL_MARKS = [PADDING, TURN_START, TURN_END]
# Single tokens that stay visible when decoding skips special tokens: vLLM's parsers look for them in the text.
VISIBLE_MARKS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]

CHAT_TEMPLATE = r"""
{%- set system = messages[0].content if messages and messages[0].role == 'system' else '' %}
{%- if system or tools %}
    {{- '<|im_start|>system\n' + system }}
    {%- if tools %}
        {{- ('\n\n' if system else '') + 'You have tools. To call one, write\n' }}
        {{- '<tool_call>\n{"name": NAME, "arguments": {}}\n</tool_call>\n<tools>' }}
        {%- for tool in tools %}{{- '\n' + (tool | tojson) }}{%- endfor %}
        {{- '\n</tools>' }}
    {%- endif %}
    {{- '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set text = message.content if message.content is string else '' %}
    {%- if message.role == 'assistant' %}
        {%- set thought = message.reasoning or message.reasoning_content or '' %}
        {{- '<|im_start|>assistant\n' }}
        {%- if thought %}
            {{- '<think>\n' + thought.strip('\n') + '\n</think>\n\n' }}
            {%- set text = text.lstrip('\n') %}
        {%- elif enable_thinking is defined and not enable_thinking %}
            {{- '<think>\n\n</think>\n\n' }}
        {%- endif %}
        {{- text }}
        {%- for item in message.tool_calls or [] %}
            {%- set call = item.function or item %}
            {{- '\n' if text or not loop.first else '' }}
            {{- '<tool_call>\n{"name": "' + call.name + '", "arguments": ' }}
            {{- call.arguments if call.arguments is string else call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user' if loop.first or loop.previtem.role != 'tool' else '' }}
        {{- '\n<tool_response>\n' + text + '\n</tool_response>' }}
        {{- '<|im_end|>\n' if loop.last or loop.nextitem.role != 'tool' else '' }}
    {%- elif message.role == 'user' or not loop.first %}
        {{- '<|im_start|>' + message.role + '\n' + text + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and not enable_thinking %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}
""".strip()

ANSWER_START = f"{TURN_START}assistant\n"
# What the template writes where thinking is turned off; in earlier turns too, so that the next prompt extends this one.
NO_THOUGHT = "<think>\n\n</think>\n\n"


def turn(role: str, text: str) -> str:
    return f"{TURN_START}{role}\n{text}{TURN_END}\n"


def thought(text: str) -> str:
    return f"<think>\n{text}\n</think>\n\n"


def tool_call(name: str, arguments: dict[str, Any]) -> str:
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False) + "\n</tool_call>"


def tool_response(text: str) -> str:
    return turn("user", f"<tool_response>\n{text}\n</tool_response>")


def check(tokenizer: Any) -> None:
    """Raise when the template writes a conversation differently from the functions above."""
    arguments = {"command": "echo polar", "timeout": 10}
    messages = [
        {"role": "user", "content": "Go."},
        {
            "role": "assistant",
            "content": None,
            "reasoning": "\nI call.\n",
            "tool_calls": [{"type": "function", "function": {"name": "bash", "arguments": arguments}}],
        },
        {"role": "tool", "content": "polar"},
        {"role": "assistant", "content": "\n\nDone.", "reasoning": "\nIt ran.\n"},
    ]
    by_hand = (
        turn("user", "Go.")
        + turn("assistant", thought("I call.") + tool_call("bash", arguments))
        + tool_response("polar")
        + turn("assistant", thought("It ran.") + "Done.")
    )
    by_template = tokenizer.apply_chat_template(messages, tokenize=False)
    if by_template != by_hand:
        raise ValueError(f"the chat template and the lessons disagree:\n{by_template!r}\n{by_hand!r}")
    generating = tokenizer.apply_chat_template(
        messages[:1], tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    if generating != turn("user", "Go.") + ANSWER_START + NO_THOUGHT:
        raise ValueError(f"the generation prompt is not the expected one: {generating!r}")
