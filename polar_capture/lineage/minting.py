"""Ids that we mint: what a client echoes of them finds the sampled turn again.

Every id is derived from the id of the call's row (UUID, 32 hex digits), so that one call's ids are the same however
often its answer is composed, and no two calls share one.
"""

import base64
import hashlib


class Minter:
    """Mints the ids of one call and remembers them in `minted`, in order, for the table `minted_ids`."""

    def __init__(self, call_id: str) -> None:
        self._stem = call_id.replace("-", "")
        self._counts: dict[str, int] = {}
        self.minted: list[str] = []

    @property
    def created(self) -> int:
        """When the call came, in epoch seconds, as its UUIDv7 tells; 0 where the id is of another kind."""
        is_v7 = len(self._stem) == 32 and self._stem[12] == "7"
        return int(self._stem[:12], 16) // 1000 if is_v7 else 0

    def id(self, prefix: str) -> str:
        """The next id with this prefix (`msg_`, `toolu_`, `call_`, …): prefix, 32 hex digits, a counter after the
        first.

        At most 40 characters for prefixes of 6: OpenAI limits call ids to 64 characters, Anthropic to `[A-Za-z0-9_-]+`.
        """
        number = self._counts.get(prefix, 0)
        self._counts[prefix] = number + 1
        return self._remember(f"{prefix}{self._stem}" if number == 0 else f"{prefix}{self._stem}_{number}")

    def once(self, prefix: str) -> str:
        """The first id with this prefix, minted where there is none yet: an early stream event and the reply both show
        it."""
        return f"{prefix}{self._stem}" if self._counts.get(prefix) else self.id(prefix)

    def opaque(self, purpose: str) -> str:
        """An opaque base64 token (signature, thoughtSignature, encrypted_content), about 100 characters.

        `purpose` tells the tokens of one call apart (`thinking-0`).
        """
        digest = hashlib.sha256(f"{self._stem}:{purpose}".encode()).digest()
        return self._remember(base64.b64encode(b"polar1:" + self._stem.encode() + b":" + digest).decode())

    def _remember(self, minted: str) -> str:
        if minted not in self.minted:
            self.minted.append(minted)
        return minted
