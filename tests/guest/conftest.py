"""The kernel of these tests' guests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from damoos.machines.catalog import KERNEL
from damoos.machines.guest import kernels


@pytest.fixture(scope="package", autouse=True)
def cheap_kernel() -> Iterator[None]:
    """Boot our kernel where it is built, as ``make test`` does first: emulated, it costs half of Debian's.

    A test that needs Debian's kernel, the default for users, sets the variable itself.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KERNEL, "damoos" if "damoos" in kernels.names() else kernels.DEBIAN)
        yield
