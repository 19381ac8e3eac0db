"""Exit statuses of every command (DESIGN §8)."""

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
