"""OpenAI Chat Completions (https://platform.openai.com/docs/api-reference/chat), as its many servers speak it."""

from polar_capture.dialects.openai_chat.dialect import OpenAIChat

__all__ = ["OpenAIChat"]
