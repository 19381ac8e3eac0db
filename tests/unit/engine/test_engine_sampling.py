"""Every sampling parameter is explicit, and shaped distributions are told."""

import pytest

from polar_capture.chat import Sampling
from polar_capture.engine.sampling import NEUTRAL, explicit, shaped


def test_nothing_is_left_to_the_servers_generation_config():
    assert explicit(Sampling(), {}) == dict(NEUTRAL)


def test_the_clients_values_are_sent():
    asked = Sampling(
        temperature=0.0, top_k=-1, seed=7, stop=["x"], max_tokens=9, n=2, logit_bias={"5": 1.0}, repetition_penalty=1.1
    )
    sent = explicit(asked, {})
    assert sent == dict(NEUTRAL) | {
        "temperature": 0.0,
        "repetition_penalty": 1.1,
        "seed": 7,
        "stop": ["x"],
        "max_tokens": 9,
        "n": 2,
        "logit_bias": {"5": 1.0},
    }


def test_overrides_win():
    sent = explicit(Sampling(temperature=0.2, max_tokens=9), {"temperature": 1.0, "max_tokens": 100, "seed": 1})
    assert (sent["temperature"], sent["max_tokens"], sent["seed"]) == (1.0, 100, 1)


@pytest.mark.parametrize(
    ("asked", "is_shaped"),
    [
        (Sampling(), False),
        (Sampling(seed=1, stop=["x"], max_tokens=1, top_k=-1), False),
        (Sampling(temperature=0.0), True),
        (Sampling(temperature=0.7), True),
        (Sampling(top_p=0.9), True),
        (Sampling(top_k=20), True),
        (Sampling(min_p=0.1), True),
        (Sampling(presence_penalty=1.5), True),
        (Sampling(frequency_penalty=0.1), True),
        (Sampling(repetition_penalty=1.1), True),
        (Sampling(logit_bias={"5": -100.0}), True),
    ],
)
def test_raw_logprobs_under_a_shaped_distribution(asked, is_shaped):
    sent = explicit(asked, {})
    assert shaped(sent, "raw_logprobs") is is_shaped
    assert shaped(sent, None) is is_shaped
    assert shaped(sent, "processed_logprobs") is False
