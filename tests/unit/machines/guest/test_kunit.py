"""What a kernel's own tests say on the console; no kernel is booted here."""

from __future__ import annotations

from damoos.machines.guest.kunit import parse

CONSOLE = """\
[    0.71] KTAP version 1
[    0.71] 1..2
[    0.71]     KTAP version 1
[    0.71]     # Subtest: damon
[    0.71]     # module: damon
[    0.71]     1..3
[    0.72]     ok 1 damon_test_target
[    0.72]     # damon_test_regions: EXPECTATION FAILED at mm/damon/tests/core-kunit.h:42
[    0.72]     not ok 2 damon_test_regions
[    0.72]     ok 3 damon_test_aggregate # SKIP not here
[    0.72] # damon: pass:1 fail:1 skip:1 total:3
[    0.72] not ok 1 damon
    # Subtest: damon-operations
    1..1
    ok 1 - damon_test_three_regions_in_vmas
ok 2 - damon-operations
Server listening on :: port 22.
"""


def test_kunit_results_are_one_line_each() -> None:
    assert [str(one) for one in parse(CONSOLE)] == [
        "ok      damon: damon_test_target",
        "not ok  damon: damon_test_regions",
        "skip    damon: damon_test_aggregate",
        "ok      damon-operations: damon_test_three_regions_in_vmas",
    ]
