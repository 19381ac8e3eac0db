"""The official Anthropic SDK for Python, in every way it can ask."""

from typing import Any

import anthropic
import httpx2
from anthropic.types import Message

from tests.sdk.scenarios import PARAMETERS, SCHEMA, Asked, Told
from tests.sdk.stage import Stage


def sync_client(stage: Stage, session: str, **options: Any) -> anthropic.Anthropic:
    http = httpx2.Client(proxy=stage.via(session), verify=stage.tls)
    return anthropic.Anthropic(api_key="k", http_client=http, **{"max_retries": 0, "timeout": 60, **options})


def async_client(stage: Stage, session: str, **options: Any) -> anthropic.AsyncAnthropic:
    http = httpx2.AsyncClient(proxy=stage.via(session), verify=stage.tls)
    return anthropic.AsyncAnthropic(api_key="k", http_client=http, **{"max_retries": 0, "timeout": 60, **options})


class Messages:
    """Messages."""

    @staticmethod
    def body(asked: Asked) -> dict[str, Any]:
        body: dict[str, Any] = {"model": "claude-9", "messages": [{"role": "user", "content": asked.prompt}]}
        body |= {"max_tokens": asked.max_tokens, "thinking": {"type": "adaptive"}}
        if asked.tools:
            body["tools"] = [{"name": "ls", "input_schema": PARAMETERS}]
        if asked.structured:
            body["output_config"] = {"format": {"type": "json_schema", "schema": SCHEMA}}
        if asked.stop:
            body["stop_sequences"] = asked.stop
        return body

    @staticmethod
    def told(answer: Message) -> Told:
        usage = answer.usage
        cached = usage.cache_read_input_tokens or 0
        calls = [block for block in answer.content if block.type == "tool_use"]
        thoughts = [block for block in answer.content if block.type == "thinking"]
        assert all(block.signature for block in thoughts)
        prompt = usage.input_tokens + cached + (usage.cache_creation_input_tokens or 0)
        details = usage.output_tokens_details
        return Told(
            text="".join(block.text for block in answer.content if block.type == "text"),
            thinking="".join(block.thinking for block in thoughts),
            calls=[(call.name, call.input) for call in calls],
            stop=answer.stop_reason or "",
            usage=(prompt, usage.output_tokens, cached, details.thinking_tokens if details else 0),
            ids=[answer.id, *(call.id for call in calls)],
            call_ids=[call.id for call in calls],
            stop_sequence=answer.stop_sequence,
        )

    @classmethod
    def sync(cls, stage: Stage, session: str, asked: Asked, streams: bool, **options: Any) -> Told:
        client = sync_client(stage, session, **options)
        if not streams:
            return cls.told(client.messages.create(**cls.body(asked)))
        text = thinking = ""
        with client.messages.stream(**cls.body(asked)) as stream:
            for event in stream:
                text += event.text if event.type == "text" else ""
                thinking += event.thinking if event.type == "thinking" else ""
            told = cls.told(stream.get_final_message())
        assert (text, thinking) == (told.text, told.thinking)
        return told

    @classmethod
    async def asynchronous(cls, stage: Stage, session: str, asked: Asked, streams: bool, **options: Any) -> Told:
        async with async_client(stage, session, **options) as client:
            if not streams:
                return cls.told(await client.messages.create(**cls.body(asked)))
            async with client.messages.stream(**cls.body(asked)) as stream:
                text = "".join([piece async for piece in stream.text_stream])
                told = cls.told(await stream.get_final_message())
            assert text == told.text
            return told
