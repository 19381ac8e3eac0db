"""The Chat Completions dialect: its paths and hosts, and where its parts are."""

import re

import msgspec

from polar_capture.chat import Completion
from polar_capture.dialects.base import (
    Dialect,
    HttpAnswer,
    ModelCard,
    Operation,
    ParsedCall,
    Reply,
    Route,
    Stream,
    WireRequest,
)
from polar_capture.dialects.openai_chat import request
from polar_capture.dialects.openai_chat.errors import error_answer
from polar_capture.dialects.openai_chat.reply import ChatReply
from polar_capture.dialects.openai_chat.stream import ChatStream
from polar_capture.faults import CallError, Fault, FaultKind
from polar_capture.lineage.minting import Minter

_AZURE = re.compile(r"/openai/deployments/(?P<model>[^/]+)/chat/completions/?")
_CHAT = re.compile(r"(?:/.*)?/chat/completions/?")
# OpenAI, DeepSeek; OpenRouter; Groq; DashScope; Z.ai; Azure
_MODELS_BASE = r"(?:/v1|/api/v1|/openai/v1|/compatible-mode/v1|/api(?:/coding)?/paas/v4|/openai)?/models"
_LIST = re.compile(_MODELS_BASE + "/?")
_MODEL = re.compile(_MODELS_BASE + r"/(?P<model>.+)")


class OpenAIChat(Dialect):
    """OpenAI Chat Completions and everyone who speaks it."""

    name = "openai_chat"
    hosts = (
        "api.openai.com",
        ".openai.azure.com",
        "api.deepseek.com",
        "openrouter.ai",
        "api.x.ai",
        "api.groq.com",
        "api.mistral.ai",
        "api.together.xyz",
        "api.together.ai",
        "api.fireworks.ai",
        "api.cerebras.ai",
        "dashscope.aliyuncs.com",
        "dashscope-intl.aliyuncs.com",
        "dashscope-us.aliyuncs.com",
        "coding.dashscope.aliyuncs.com",
        "coding-intl.dashscope.aliyuncs.com",
        "portal.qwen.ai",
        "api.moonshot.ai",
        "api.moonshot.cn",
        "api.kimi.com",
        "api.z.ai",
        "open.bigmodel.cn",
        "api.minimax.io",
        "api.minimaxi.com",
        "api-inference.modelscope.cn",
        "router.huggingface.co",
    )
    routes = (
        ("POST", _AZURE, Operation.GENERATE, "chat_completions"),
        ("POST", _CHAT, Operation.GENERATE, "chat_completions"),
        ("GET", _LIST, Operation.LIST_MODELS, "models"),
        ("GET", _MODEL, Operation.GET_MODEL, "model"),
    )

    def parse(self, wire: WireRequest, route: Route) -> ParsedCall:
        return request.parse(wire, route.params.get("model"))

    def reply(self, call: ParsedCall, completion: Completion, minter: Minter) -> Reply:
        return ChatReply(call, completion, minter)

    def stream(self, call: ParsedCall, minter: Minter, model: str) -> Stream:
        return ChatStream(call, minter, model)

    def error(self, fault: Fault, wire: WireRequest | None = None) -> HttpAnswer:
        return error_answer(fault)

    def count(self, call: ParsedCall, prompt_tokens: int) -> HttpAnswer:
        """Chat Completions has no way to ask for a count, so no route leads here."""
        raise CallError(Fault(FaultKind.NOT_FOUND, "Chat Completions has no token counting."))

    def models(self, cards: list[ModelCard], wire: WireRequest, route: Route) -> HttpAnswer:
        asked = route.params.get("model")
        if asked is None:
            body: dict[str, object] = {"object": "list", "data": [_model_object(card, card.id) for card in cards]}
        else:
            named = [card for card in cards if card.id == asked] or cards or [ModelCard(asked)]
            body = _model_object(named[0], asked)
        return HttpAnswer(200, msgspec.json.encode(body))


def _model_object(card: ModelCard, name: str) -> dict[str, object]:
    model: dict[str, object] = {"id": name, "object": "model", "created": card.created, "owned_by": "polar-capture"}
    if card.window is not None:
        # OpenRouter's and vLLM's names of the window, in tokens; clients of either read it.
        model |= {"context_length": card.window, "max_model_len": card.window}
    return model
