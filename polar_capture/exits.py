"""Exit statuses of every command (DESIGN §8), and the error that ends a command with one."""

import enum


class Exit(enum.IntEnum):
    OK = 0
    FAULT = 1  # a fault of ours, or `verify` found a mismatch
    USAGE = 2
    NOTHING = 3  # nothing was captured or exported
    NO_IDS = 4  # the engine gives no token ids
    DATABASE = 5
    NOT_EXECUTABLE = 126  # of `run`'s child, as shells say it
    NOT_FOUND = 127
    SIGNALLED = 128  # plus the signal's number


class Failure(Exception):
    """Ends a command with a message for the user and a status."""

    def __init__(self, message: str, status: int = Exit.FAULT) -> None:
        super().__init__(message)
        self.status = int(status)
