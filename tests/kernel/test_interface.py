"""The contract of the kernel's interface on three kernels: Debian's 6.12, our 6.12, our 6.1."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from damoos.machines.base import Session
from damoos.testing.contracts import KernelInterfaceContract
from tests.conftest import KERNELS, open_guest


@pytest.mark.parametrize("kernel", KERNELS, scope="class")
class TestKernelInterface(KernelInterfaceContract):
    """Each kernel in its own guest."""

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, kernel: str, guest_image: None) -> Iterator[Session]:
        guest = open_guest(kernel)
        yield guest
        guest.close()
