"""OpenAI Responses, sans I/O. A request goes through `request`, `items` and `tools`; an answer through `output`,
`response` and `events`; `stored` and `socket` add state."""

from polar_capture.dialects.openai_responses.dialect import OpenAIResponses
from polar_capture.dialects.openai_responses.socket import ResponsesSocket

__all__ = ["OpenAIResponses", "ResponsesSocket"]
