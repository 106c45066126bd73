"""What tests cost: the CPU time of each, with all processes that it starts, guests among them; a pytest plugin.

It depends little on how many tests run at once, as wall time does. What ends without its parent's knowledge is left
out: keepers, and what Ray starts.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from damoos.agent.proc import descendants

HERE = Path(__file__).parent
# Seconds of a CPU that the tests of each folder may take (docs/testing.md). They are shown after a run.
BUDGET_S = {
    "kvm": 900, "arm64": 300, "rollout": 7000, "guest": 2100, "integration": 400, "kernel": 700, "adversary": 80,
    "contract": 20, "unit": 300,
}  # fmt: skip
_BEGUN = pytest.StashKey[float]()
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def cpu_s() -> float:
    """Of this process, of all that run and descend from it, and of those that these have waited for."""
    return sum(map(_of, descendants(os.getpid())))


def _of(pid: int) -> float:
    """Of a process, and of those that it has waited for."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return _TICK_S * sum(map(int, fields[11:15]))
    return 0.0


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Read the clock before a test's set-up."""
    item.stash[_BEGUN] = cpu_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell the process that collects the reports what a test has taken, with the last of its reports."""
    report = yield
    if call.when == "teardown":
        report.cpu_s = cpu_s() - item.stash[_BEGUN]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What each folder took, set-up and tear-down included, and its three dearest files."""
    spent: dict[str, Counter[str]] = {folder: Counter() for folder in BUDGET_S}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "cpu_s"):
                file = (Path(terminalreporter.config.rootpath) / report.nodeid.split("::")[0]).relative_to(HERE)
                spent.get(file.parts[0], Counter())["/".join(file.parts[1:])] += report.cpu_s
    terminalreporter.section("seconds of a CPU by folder")
    for folder, files in spent.items():
        if files:
            dearest = ", ".join(f"{file} {seconds:.0f}" for file, seconds in files.most_common(3))
            terminalreporter.line(f"{folder:<12} {files.total():5.0f} of {BUDGET_S[folder]:5.0f}   {dearest}")
