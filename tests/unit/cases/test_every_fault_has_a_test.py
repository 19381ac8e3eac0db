"""No fault of the field goes without a test."""

import pytest

from tests.cases.index import faults, faults_in, holders


def test_every_fault_of_the_field_has_a_test() -> None:
    assert len(set(faults())) == len(faults()) == 81
    assert [fault for fault, tests in holders().items() if not tests] == []


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("test_o_errors_05_07_each_kind", ["o-errors-05", "o-errors-07"]),
        ("test_o_capture_01_and_09_ids_are_stored", ["o-capture-01", "o-capture-09"]),
        ("test_o_req_anthropic_10_is_so", ["o-req-anthropic-10"]),
        ("test_o_resp_chat_01_o_req_chat_02", ["o-resp-chat-01", "o-req-chat-02"]),
        ("test_a_port_8080", []),
        ("test_o_errors_0123", []),
    ],
)
def test_ids_are_read_from_names(name: str, ids: list[str]) -> None:
    assert faults_in(name) == ids
