"""DAMON's own unit tests (KUnit), run by a kernel at its boot and read from its console.

References
----------
Documentation/dev-tools/ktap.rst
"""

from __future__ import annotations

import re
from collections.abc import Callable

from damoos.errors import UnsupportedError
from damoos.machines.guest.accel import choose
from damoos.machines.guest.image import image
from damoos.machines.guest.kernel_tests import KernelTest
from damoos.machines.guest.kernels import kernel
from damoos.machines.guest.qemu import BOOT_S, READY, QemuProcess

MEM_BYTES = 512 << 20
# All suites of DAMON's have names that begin so; the word wins over "quiet", which would hide the results.
_CMDLINE = "kunit.enable=1 kunit.filter_glob=damon* loglevel=7"
_TIME = r"^(?:\[\s*\d+\.\d+\] )?"
_SUITE = re.compile(_TIME + r"\s+# Subtest: (\S+)$")
_RESULT = re.compile(_TIME + r"(\s+)(ok|not ok) \d+ (?:- )?(\S+?)(?: # (SKIP.*))?$")


def run(name: str, say: Callable[[str], None] = lambda _: None) -> list[KernelTest]:
    """Boot a kernel with its tests switched on.

    Raises
    ------
    UnsupportedError : the kernel has no KUnit tests of DAMON's
    MachineLost : it did not come up
    """
    boots, built = kernel(name, say), image(say)
    accelerator = choose("auto", built, say)
    guest = QemuProcess(built, boots, accelerator, 1, MEM_BYTES, _CMDLINE, say=say)
    try:
        guest.wait_for(READY, BOOT_S)
        results = parse(guest.console())
    finally:
        guest.end()
    if not results:
        raise UnsupportedError(f"kernel '{name}' has no KUnit tests of DAMON's; 'damoos' does (make kernel)")
    return results


def parse(console: str) -> list[KernelTest]:
    """Results of all tests that a console shows, in their order."""
    results, suite = [], ""
    for line in console.splitlines():
        if match := _SUITE.match(line.rstrip()):
            suite = match[1]
        elif match := _RESULT.match(line.rstrip()):
            results.append(KernelTest(suite, match[3], "skip" if match[4] else match[2]))
    return results
