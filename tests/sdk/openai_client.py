"""The official OpenAI SDK for Python: Chat Completions and Responses, in every way it can ask."""

from typing import Any

import httpx2
import openai
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from tests.sdk.scenarios import PARAMETERS, SCHEMA, Asked, Told
from tests.sdk.stage import Stage


def sync_client(stage: Stage, session: str, **options: Any) -> openai.OpenAI:
    http = httpx2.Client(proxy=stage.via(session), verify=stage.tls)
    return openai.OpenAI(api_key="k", http_client=http, **{"max_retries": 0, "timeout": 60, **options})


def async_client(stage: Stage, session: str, **options: Any) -> openai.AsyncOpenAI:
    http = httpx2.AsyncClient(proxy=stage.via(session), verify=stage.tls)
    return openai.AsyncOpenAI(api_key="k", http_client=http, **{"max_retries": 0, "timeout": 60, **options})


class Chat:
    """Chat Completions."""

    @staticmethod
    def body(asked: Asked) -> dict[str, Any]:
        body: dict[str, Any] = {"model": "gpt-9", "messages": [{"role": "user", "content": asked.prompt}]}
        body["max_completion_tokens"] = asked.max_tokens
        if asked.tools:
            body["tools"] = [{"type": "function", "function": {"name": "ls", "parameters": PARAMETERS}}]
        if asked.structured:
            form = {"name": "answer", "schema": SCHEMA, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        if asked.stop:
            body["stop"] = asked.stop
        return body

    @staticmethod
    def told(answer: ChatCompletion) -> Told:
        choice = answer.choices[0]
        message, usage = choice.message, answer.usage
        assert usage is not None
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
        assert usage.prompt_tokens_details is not None
        assert usage.completion_tokens_details is not None
        calls = [call for call in message.tool_calls or [] if call.type == "function"]
        counts = (usage.prompt_tokens_details.cached_tokens, usage.completion_tokens_details.reasoning_tokens)
        return Told(
            text=message.content or "",
            thinking=getattr(message, "reasoning_content", None) or "",
            calls=[(call.function.name, call.function.arguments) for call in calls],
            stop=choice.finish_reason,
            usage=(usage.prompt_tokens, usage.completion_tokens, counts[0] or 0, counts[1] or 0),
            ids=[answer.id, *(call.id for call in calls)],
            call_ids=[call.id for call in calls],
        )

    @classmethod
    def sync(cls, stage: Stage, session: str, asked: Asked, streams: bool, **options: Any) -> Told:
        client = sync_client(stage, session, **options)
        if not streams:
            return cls.told(client.chat.completions.create(**cls.body(asked)))
        with client.chat.completions.stream(**cls.body(asked), stream_options={"include_usage": True}) as stream:
            seen = "".join(event.delta for event in stream if event.type == "content.delta")
            try:
                final: ChatCompletion = stream.get_final_completion()
            except openai.LengthFinishReasonError as cut:  # how this accumulator tells of a length stop
                final = cut.completion
        told = cls.told(final)
        assert seen == told.text
        return told

    @classmethod
    async def asynchronous(cls, stage: Stage, session: str, asked: Asked, streams: bool, **options: Any) -> Told:
        async with async_client(stage, session, **options) as client:
            if not streams:
                return cls.told(await client.chat.completions.create(**cls.body(asked)))
            wanted = client.chat.completions.stream(**cls.body(asked), stream_options={"include_usage": True})
            async with wanted as stream:
                seen = "".join([event.delta async for event in stream if event.type == "content.delta"])
                try:
                    final: ChatCompletion = await stream.get_final_completion()
                except openai.LengthFinishReasonError as cut:
                    final = cut.completion
            told = cls.told(final)
            assert seen == told.text
            return told


class Responses:
    """Responses over HTTP."""

    @staticmethod
    def body(asked: Asked) -> dict[str, Any]:
        body: dict[str, Any] = {"model": "gpt-9", "input": asked.prompt, "max_output_tokens": asked.max_tokens}
        body["include"] = ["reasoning.encrypted_content"]
        if asked.tools:
            body["tools"] = [{"type": "function", "name": "ls", "parameters": PARAMETERS, "strict": False}]
        if asked.structured:
            body["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}}
        if asked.stop:
            body["extra_body"] = {"stop": asked.stop}
        return body

    @staticmethod
    def told(answer: Any) -> Told:
        assert isinstance(answer, Response)
        usage = answer.usage
        assert usage is not None
        assert usage.total_tokens == usage.input_tokens + usage.output_tokens
        reasoning = [item for item in answer.output if item.type == "reasoning"]
        calls = [item for item in answer.output if item.type == "function_call"]
        assert all(item.encrypted_content for item in reasoning)
        counts = (usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens)
        identified = [item.id for item in answer.output] + [call.call_id for call in calls]
        return Told(
            text=answer.output_text,
            thinking="".join(part.text for item in reasoning for part in item.summary),
            calls=[(call.name, call.arguments) for call in calls],
            stop=answer.status or "",
            usage=(usage.input_tokens, usage.output_tokens, *counts),
            ids=[answer.id, *(name for name in identified if name)],
            call_ids=[call.call_id for call in calls],
        )

    @classmethod
    def sync(cls, stage: Stage, session: str, asked: Asked, streams: bool, **options: Any) -> Told:
        client = sync_client(stage, session, **options)
        if not streams:
            return cls.told(client.responses.create(**cls.body(asked)))
        seen = Seen()
        with client.responses.stream(**cls.body(asked)) as stream:
            for event in stream:
                seen.see(event)
        return seen.checked(cls.told(seen.last))

    @classmethod
    async def asynchronous(cls, stage: Stage, session: str, asked: Asked, streams: bool, **options: Any) -> Told:
        async with async_client(stage, session, **options) as client:
            if not streams:
                return cls.told(await client.responses.create(**cls.body(asked)))
            seen = Seen()
            async with client.responses.stream(**cls.body(asked)) as stream:
                async for event in stream:
                    seen.see(event)
            return seen.checked(cls.told(seen.last))


class ResponseFailed(Exception):
    """A response that failed in its stream, which this SDK tells by an event and raises nothing for."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Seen:
    """What the events of a response said, beside the whole response at its end.

    The SDK's accumulator has a final response for `completed` only; this takes `incomplete` as well.
    """

    def __init__(self) -> None:
        self.text = self.thinking = ""
        self.arguments: dict[str, str] = {}
        self.last: Any = None
        self.numbers: list[int] = []

    def see(self, event: Any) -> None:
        self.numbers.append(event.sequence_number)
        if event.type == "response.output_text.delta":
            self.text += event.delta
        elif event.type == "response.reasoning_summary_text.delta":
            self.thinking += event.delta
        elif event.type == "response.function_call_arguments.delta":
            self.arguments[event.item_id] = self.arguments.get(event.item_id, "") + event.delta
        elif event.type == "response.failed":
            raise ResponseFailed(event.response.error.code, event.response.error.message)
        elif event.type in ("response.completed", "response.incomplete"):
            # The stream's own event holds a parsed copy of the response, a subclass of Response.
            self.last = event.response

    def checked(self, told: Told) -> Told:
        assert (self.text, self.thinking) == (told.text, told.thinking)
        assert list(self.arguments.values()) == [arguments for _, arguments in told.calls]
        assert self.numbers == list(range(len(self.numbers)))
        return told
