"""What the end of one of the kernel's selftests means; none is run here."""

from __future__ import annotations

import pytest

from damoos.machines.guest.kselftest import judged


@pytest.mark.parametrize(
    ("status", "output", "line"),
    [
        (0, "anything", "ok      damon: sysfs.sh"),
        (4, "DAMON not found\n", "skip    damon: sysfs.sh: DAMON not found"),
        (1, "dump failed (drgn not found)\n", "skip    damon: sysfs.sh: dump failed (drgn not found)"),
        (1, "first\nvalue mismatch\n", "not ok  damon: sysfs.sh: value mismatch"),
        (124, "", "not ok  damon: sysfs.sh: it ended with 124 and printed nothing"),
    ],
)
def test_a_selftest_is_judged_by_its_exit_status(status: int, output: str, line: str) -> None:
    assert str(judged("sysfs.sh", status, output)) == line
