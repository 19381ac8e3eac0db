"""The official Google SDK for Python, in every way it can ask."""

from typing import Any

import httpx2
from google import genai
from google.genai import types

from tests.sdk.scenarios import PARAMETERS, SCHEMA, Asked, Told
from tests.sdk.stage import Stage


def sdk_client(stage: Stage, session: str, timeout: float = 60) -> genai.Client:
    proxy: dict[str, Any] = {"proxy": stage.via(session), "verify": stage.tls}
    options = types.HttpOptions(
        timeout=int(timeout * 1000),
        httpx_client=httpx2.Client(**proxy, timeout=timeout),
        httpx_async_client=httpx2.AsyncClient(**proxy, timeout=timeout),
    )
    return genai.Client(api_key="k", http_options=options)


class Google:
    """generateContent and streamGenerateContent."""

    @staticmethod
    def body(asked: Asked) -> dict[str, Any]:
        config = types.GenerateContentConfig(
            max_output_tokens=asked.max_tokens,
            thinking_config=types.ThinkingConfig(include_thoughts=True),
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )
        if asked.tools:
            declared = types.FunctionDeclaration(name="ls", parameters_json_schema=PARAMETERS)
            config.tools = [types.Tool(function_declarations=[declared])]
        if asked.structured:
            config.response_mime_type, config.response_json_schema = "application/json", SCHEMA
        if asked.stop:
            config.stop_sequences = asked.stop
        return {"model": "gemini-9", "contents": asked.prompt, "config": config}

    @staticmethod
    def told(answers: list[types.GenerateContentResponse]) -> Told:
        last = answers[-1]
        usage = last.usage_metadata
        assert usage is not None
        found = [candidate for answer in answers for candidate in answer.candidates or []]
        parts = [p for candidate in found if candidate.content for p in candidate.content.parts or []]
        calls = [part.function_call for part in parts if part.function_call]
        thoughts = usage.thoughts_token_count or 0
        completion = (usage.candidates_token_count or 0) + thoughts
        finish = found[-1].finish_reason
        assert sum(1 for candidate in found if candidate.finish_reason) == 1
        assert sum(1 for part in parts if part.thought_signature) == 1
        return Told(
            text="".join(part.text or "" for part in parts if not part.thought),
            thinking="".join(part.text or "" for part in parts if part.thought),
            calls=[(call.name or "", call.args) for call in calls],
            stop=finish.value if finish else "",
            usage=(usage.prompt_token_count or 0, completion, usage.cached_content_token_count or 0, thoughts),
            ids=[last.response_id or "", *(call.id or "" for call in calls)],
            call_ids=[call.id or "" for call in calls],
        )

    @classmethod
    def sync(cls, stage: Stage, session: str, asked: Asked, streams: bool, **options: Any) -> Told:
        client = sdk_client(stage, session, **options)
        if not streams:
            return cls.told([client.models.generate_content(**cls.body(asked))])
        return cls.told(list(client.models.generate_content_stream(**cls.body(asked))))

    @classmethod
    async def asynchronous(cls, stage: Stage, session: str, asked: Asked, streams: bool, **options: Any) -> Told:
        models = sdk_client(stage, session, **options).aio.models
        if not streams:
            return cls.told([await models.generate_content(**cls.body(asked))])
        return cls.told([chunk async for chunk in await models.generate_content_stream(**cls.body(asked))])
