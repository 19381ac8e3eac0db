"""Usage as a harness is told it. A harness compacts by these counts against the window that it believes in, often
200,000 tokens or more: told in proportion, it does so when *our* window is full. What is recorded is never scaled."""

from collections.abc import Sequence

import msgspec

from polar_capture.chat import Completion, Usage
from polar_capture.dialects.base import ModelCard

_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")


class ToldUsage(msgspec.Struct, frozen=True):
    """`assumed` is the harness's window in tokens; None: counts are told as they are."""

    assumed: int | None = None

    def tokens(self, count: int, cards: Sequence[ModelCard]) -> int:
        """A number of tokens as it is told, where these models are served."""
        window = min((card.window for card in cards if card.window), default=None)
        if self.assumed is None or window is None or self.assumed <= window:
            return count
        return count * self.assumed // window

    def completion(self, completion: Completion, cards: Sequence[ModelCard]) -> Completion:
        """The same answer with its usage as it is told."""
        if self.assumed is None:
            return completion
        usage = Usage(**{name: self.tokens(getattr(completion.usage, name), cards) for name in _COUNTS})
        return msgspec.structs.replace(completion, usage=usage)
