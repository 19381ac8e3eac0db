"""Builders of small sessions: a call is its prompt, its completion and what is special about it."""

import msgspec
import numpy as np

from polar_capture.trajectories.conversations import Conversation, conversation
from polar_capture.trajectories.options import BuildOptions
from polar_capture.trajectories.rows import CallRow, Sample
from polar_capture.trajectories.samples import build_session

USER, TOOL, ASSISTANT, END, NEWLINE = 10, 12, 11, 901, 198


def opening(*said, role=USER):
    """A prompt of one message with the generation prompt behind it."""
    return [900, role, *said, END, NEWLINE, 900, ASSISTANT, NEWLINE]


def then(*said, role=TOOL):
    """What the template puts behind a sampled turn: the newline, the next message, the generation prompt."""
    return [NEWLINE, 900, role, *said, END, NEWLINE, 900, ASSISTANT, NEWLINE]


def call(name, prompt, completion, *, seq=None, logprobs=None, **more):
    """One call; its seq is the digits of its name unless given."""
    digits = "".join(c for c in name if c.isdigit())
    if logprobs is None and completion is not None:
        logprobs = [-0.1 * (i + 1) for i in range(len(completion))]
    return CallRow(
        id=name,
        session_id="s",
        seq=int(digits or 0) if seq is None else seq,
        prompt_ids=None if prompt is None else np.array(prompt, np.int32),
        completion_ids=None if completion is None else np.array(completion, np.int32),
        logprobs=None if logprobs is None else np.array(logprobs, np.float32),
        **more,
    )


def said(*turns, answer=None, system="", tools=None, **body):
    """A conversation from (role, text) pairs or message dicts."""
    messages = [{"role": "system", "content": system}] if system else []
    messages += [turn if isinstance(turn, dict) else {"role": turn[0], "content": turn[1]} for turn in turns]
    request = msgspec.json.encode({"messages": messages, "tools": tools, **body})
    found = conversation(request, None if answer is None else msgspec.json.encode(answer))
    assert isinstance(found, Conversation)
    return found


def build(*rows, conversations=None, **options):
    """(samples, report) of the calls."""
    known = conversations or {}
    built = build_session("s", list(rows), BuildOptions(**options), known.get)
    samples = list(built.samples())
    assert built.trained == [int(sample.loss_mask.sum()) for sample in samples]
    return samples, built.report


def ids(sample: Sample):
    return sample.input_ids.tolist()


def mask(sample: Sample):
    return sample.loss_mask.tolist()


def trained(sample: Sample):
    return sample.input_ids[sample.loss_mask == 1].tolist()


def probabilities(sample: Sample):
    """The logprobs at masked-in places, rounded."""
    return [round(float(x), 6) for x in sample.logprobs[sample.loss_mask == 1]]
