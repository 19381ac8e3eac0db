"""Turns of a policy that is too old stay in their samples as context, with the reason."""

from tests.unit.trajectories.builders import END, build, call, mask, opening, then, trained


def chain(*versions):
    """One conversation whose turns were sampled by these policy versions."""
    rows, prompt = [], opening(20)
    for place, version in enumerate(versions):
        turn = [50 + place, END]
        rows.append(call(f"c{place}", prompt, turn, policy_version=version))
        prompt = [*prompt, *turn, *then(60 + place)]
    return rows


def test_only_turns_of_the_oldest_version_and_newer_ones_train():
    (sample,), report = build(*chain(1, 2, 3), oldest_policy=2)
    assert trained(sample) == [51, END, 52, END]
    assert [(span.policy_version, span.trained, span.reason) for span in sample.turn_spans] == [
        (1, False, "stale_policy"),
        (2, True, None),
        (3, True, None),
    ]
    assert sample.policy_versions == (2, 3)
    assert sample.verdict == "exact"
    assert report.reasons == {"stale_policy": 1}
    assert (report.trained_tokens, report.sampled_tokens) == (4, 6)


def test_a_sample_of_old_turns_alone_is_a_row_that_says_why_it_does_not_train():
    (sample,), report = build(*chain(1, 1), oldest_policy=2)
    assert sample.verdict == "not_trainable"
    assert sum(mask(sample)) == 0
    assert {span.reason for span in sample.turn_spans} == {"stale_policy"}
    assert report.reasons == {"stale_policy": 2}


def test_an_unknown_version_can_not_be_shown_to_be_fresh():
    (sample,), _ = build(*chain(None, 2), oldest_policy=0)
    assert [span.reason for span in sample.turn_spans] == ["stale_policy", None]


def test_without_a_limit_any_age_trains():
    (sample,), report = build(*chain(None, 1, 9))
    assert sum(mask(sample)) == 6
    assert not report.reasons


def test_another_reason_is_told_before_staleness():
    (sample,), report = build(
        call("c0", opening(20), [50, END], logprobs=[0.5, -1.0], policy_version=1), oldest_policy=2
    )
    assert [span.reason for span in sample.turn_spans] == ["logprob_invalid"]
    assert report.reasons == {"logprob_invalid": 1}


def test_a_masked_turn_names_its_option():
    (sample,), _ = build(call("c0", opening(20), [50], finish_reason="length"), truncated="mask")
    assert [span.reason for span in sample.turn_spans] == ["truncated"]
