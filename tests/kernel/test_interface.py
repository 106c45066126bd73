"""The contract of the kernel's interface on four kernels: Debian's 6.12 and its newest, our 7.3, our 6.1.

Debian's newest is of the same series as ours, takes twice as much of a CPU under emulation, and moves on: make test
leaves it to make kernel-test.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from damoos.damon.scheme import Context
from damoos.machines.base import Session
from damoos.machines.guest import kernels
from damoos.testing.contracts import FEATURES, KernelInterfaceContract, refusal
from tests.conftest import KERNELS, open_guest

NEWEST = pytest.param("debian-newest", marks=pytest.mark.kernel_test)


@pytest.mark.parametrize("kernel", [NEWEST if one == "debian-newest" else one for one in KERNELS], scope="class")
class TestKernelInterface(KernelInterfaceContract):
    """Each kernel in its own guest."""

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, kernel: str, guest_image: None) -> Iterator[Session]:
        guest = open_guest(kernel)
        yield guest
        guest.close()

    def test_nothing_of_it_is_unknown_and_the_newest_have_all(self, kernel: str, offered: dict[str, list[str]]) -> None:
        release = kernels.kernel(kernel).release
        if release.split(".")[:2] in (["6", "1"], ["6", "12"], ["7", "3"]):  # Debian's newest moves on
            assert offered["unknown"] == []
        if release.startswith("7."):
            assert [text for text in FEATURES if refusal(Context.parse(text), offered)] == []
