"""The spool: an append-only file that takes what the database can't, until it can again.

A file begins with MAGIC; each entry is `u32 length | u32 crc32 | payload` (little-endian), the payload an operation
as MessagePack. Every group of entries is fsynced before its writer goes on. A torn entry at the end (power cut, full
disk) ends the file: what stands before it is kept. Each process has its own file and holds a lock on it; files
without a living owner are taken over.
"""

import hashlib
import logging
import os
import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import uuid_utils

from polar_capture.store.database import Database

log = logging.getLogger(__name__)

MAGIC = b"POLARSP1"
SUFFIX = ".spool"
_FRAME = struct.Struct("<II")
_MAX_ENTRY = 1 << 30


class SpoolError(OSError):
    """The spool can't take or give entries; the message names the file."""


class SpoolFile:
    """One locked file of entries. `read_offset` is where the next entry to replay begins."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._end = self._sound_end()
        self.read_offset = len(MAGIC)
        self.entries_left = sum(1 for _ in self._frames(self.read_offset))

    @classmethod
    def create(cls, path: Path) -> "SpoolFile":
        """A new file with mode 0600. SpoolError where the folder takes none."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            _lock(descriptor)
            _write_all(descriptor, MAGIC, 0)
            os.fsync(descriptor)
            _sync_folder(path.parent)
        except OSError as error:
            raise SpoolError(
                f"the spool {path} can't be created ({error.strerror}): name another folder with --spool"
            ) from error
        return cls(path, descriptor)

    @classmethod
    def adopt(cls, path: Path) -> "SpoolFile | None":
        """An existing file whose owner is gone; None where it has one, or the file is gone."""
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SpoolError(f"the spool {path} can't be read ({error.strerror}): give this user permission") from error
        if not _lock(descriptor) or not path.exists():
            os.close(descriptor)
            return None
        return cls(path, descriptor)

    def append(self, payloads: Sequence[bytes]) -> None:
        """Adds entries and makes them durable; on any failure the file is as it was before, and SpoolError says why."""
        data = b"".join(_FRAME.pack(len(payload), zlib.crc32(payload)) + payload for payload in payloads)
        try:
            _write_all(self._descriptor, data, self._end)
            os.fsync(self._descriptor)
        except OSError as error:
            try:
                os.ftruncate(self._descriptor, self._end)
            except OSError as second:
                log.error("the spool %s could not be cut back after a failed write: %s", self.path, second)
            raise SpoolError(f"the spool {self.path} can't be written: {error.strerror}") from error
        self._end += len(data)
        self.entries_left += len(payloads)

    def peek(self, limit: int) -> tuple[list[bytes], int]:
        """The next entries to replay, and the offset behind them for `done`."""
        payloads: list[bytes] = []
        offset = self.read_offset
        for payload, behind in self._frames(self.read_offset):
            payloads.append(payload)
            offset = behind
            if len(payloads) == limit:
                break
        return payloads, offset

    def done(self, count: int, offset: int) -> None:
        """Entries up to `offset` are in the database; a file that is replayed to its end is emptied."""
        self.read_offset = offset
        self.entries_left -= count
        if offset >= self._end:
            os.ftruncate(self._descriptor, len(MAGIC))
            self._end = self.read_offset = len(MAGIC)
            self.entries_left = 0

    def close(self, *, remove_empty: bool = True) -> None:
        """Releases the file, and removes it where nothing is left in it."""
        if remove_empty and self.entries_left == 0:
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def _sound_end(self) -> int:
        size = os.fstat(self._descriptor).st_size
        if size < len(MAGIC) or os.pread(self._descriptor, len(MAGIC), 0) != MAGIC:
            if size > len(MAGIC):
                raise SpoolError(f"{self.path} is no spool of this version: move it away")
            _write_all(self._descriptor, MAGIC, 0)
        end = len(MAGIC)
        self._end = size
        for _, behind in self._frames(end):
            end = behind
        if end < size:
            log.warning(
                "the spool %s ends in a torn entry of %d bytes, which no client saw: it is dropped",
                self.path,
                size - end,
            )
            os.ftruncate(self._descriptor, end)
        return end

    def _frames(self, offset: int) -> Iterator[tuple[bytes, int]]:
        while offset + _FRAME.size <= self._end:
            length, crc = _FRAME.unpack(os.pread(self._descriptor, _FRAME.size, offset))
            # A file system may fill a torn end with zeros, which would read as empty entries for ever.
            if not 0 < length <= _MAX_ENTRY or offset + _FRAME.size + length > self._end:
                return
            payload = os.pread(self._descriptor, length, offset + _FRAME.size)
            if len(payload) != length or zlib.crc32(payload) != crc:
                return
            offset += _FRAME.size + length
            yield payload, offset


class SpoolFolder:
    """Where one database's spool files are: `<stem>.<uuid>.spool` in `folder`."""

    def __init__(self, folder: Path, stem: str) -> None:
        self.folder, self.stem = folder, stem

    @classmethod
    def of(cls, database: Database, folder: Path | None = None) -> "SpoolFolder":
        """The database's spool: beside a SQLite file, else in `folder`, by default `spool` in POLAR_HOME."""
        if folder is None and database.is_sqlite:
            return cls(database.path.parent, database.path.name)
        home = Path(os.environ.get("POLAR_HOME") or Path.home() / ".polar-capture")
        url = database.url
        place = (
            database.name
            if database.is_sqlite
            else f"{url.host}:{url.port or 5432}/{url.database}?{sorted(url.query.items())}"
        )
        stem = Path(url.database or "polar").name
        return cls(folder or home / "spool", f"{stem}-{hashlib.sha256(place.encode()).hexdigest()[:12]}")

    def create(self) -> SpoolFile:
        """A new file of this process."""
        return SpoolFile.create(self.folder / f"{self.stem}.{uuid_utils.uuid7()}{SUFFIX}")

    def orphans(self) -> Iterator[SpoolFile]:
        """The files that other processes left behind, oldest first, locked for the caller."""
        for path in self.paths():
            try:
                file = SpoolFile.adopt(path)
            except SpoolError as error:
                log.error("captured entries may wait in a file that can't be used: %s", error)
                continue
            if file is not None:
                yield file

    def paths(self) -> list[Path]:
        """All spool files of the database, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(
            path for path in self.folder.iterdir() if path.name.startswith(f"{self.stem}.") and path.suffix == SUFFIX
        )

    def waiting(self) -> list[Path]:
        """The files with something in them."""
        return [path for path in self.paths() if path.exists() and path.stat().st_size > len(MAGIC)]

    @property
    def rejected(self) -> Path:
        """The file of entries that the database refused for good."""
        return self.folder / f"{self.stem}.rejected"

    def reject(self, payload: bytes) -> Path:
        """Puts an entry aside that the database refuses for good, and returns the file that has it."""
        path = self.rejected
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, _FRAME.pack(len(payload), zlib.crc32(payload)) + payload)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return path


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        offset += written
        view = view[written:]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
