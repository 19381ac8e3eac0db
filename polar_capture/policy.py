"""The policy version in force, and the gate that a weight update closes."""

import asyncio

import msgspec


class PolicyVersion(msgspec.Struct, frozen=True):
    """A monotone version number and a label for people (a checkpoint's name, a commit)."""

    version: int
    label: str | None = None


class PolicyError(ValueError):
    """A version that cannot follow the one in force."""


class Policy:
    """The version that calls are sampled with now. `admit` holds new calls while the gate is closed."""

    def __init__(self, version: int = 0, label: str | None = None) -> None:
        self.current = PolicyVersion(version, label)
        self._open = asyncio.Event()
        self._open.set()

    @property
    def paused(self) -> bool:
        return not self._open.is_set()

    def advance(self, version: int, label: str | None = None) -> PolicyVersion:
        """Put a new version in force. Raises PolicyError when it would go backwards."""
        if version < self.current.version:
            raise PolicyError(
                f"policy version {version} is older than {self.current.version}, which is in force: versions only go up"
            )
        self.current = PolicyVersion(version, label)
        return self.current

    def pause(self) -> None:
        self._open.clear()

    def resume(self) -> None:
        self._open.set()

    async def admit(self) -> PolicyVersion:
        """Wait until the gate is open; the version that the call starts with."""
        await self._open.wait()
        return self.current
