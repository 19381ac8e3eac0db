"""Run every test that holds a fault of the field, and print a table: fault, tests run, passed or failed."""

import sys

import pytest

from tests.cases.index import ROOT, faults, faults_in, holders


class Outcomes:
    """A pytest plugin: keeps the tests that hold a fault, and counts how they end."""

    def __init__(self) -> None:
        self.passed = dict.fromkeys(faults(), 0)
        self.failed = dict.fromkeys(faults(), 0)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept = [item for item in items if any(fault in self.passed for fault in faults_in(item.name))]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and not report.failed:
            return
        counts = self.failed if report.failed else self.passed if report.passed else {}
        for fault in faults_in(report.nodeid.rpartition("::")[2].partition("[")[0]):
            if fault in counts:
                counts[fault] += 1


def main() -> int:
    outcomes = Outcomes()
    files = sorted({str(ROOT / test.partition("::")[0]) for tests in holders().values() for test in tests})
    pytest.main([*files, "-q", "--no-header", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[outcomes])
    good = 0
    for fault in faults():
        passed, failed = outcomes.passed[fault], outcomes.failed[fault]
        verdict = "fail" if failed else "pass" if passed else "no test ran"
        good += verdict == "pass"
        print(f"{fault:22} {passed + failed:4} tests  {verdict}")
    print(f"{good} of {len(faults())} pass")
    return 0 if good == len(faults()) else 1


if __name__ == "__main__":
    sys.exit(main())
