"""The kernel of these tests' guests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from damoos.machines.catalog import KERNEL
from damoos.machines.guest import kernels


@pytest.fixture(scope="package", autouse=True)
def cheap_kernel() -> Iterator[None]:
    """Ours where it is built, as ``make test`` does first: emulated, it costs a third less than Debian's.

    What is to be seen on Debian's, which is what people have at first, names it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KERNEL, "damoos" if "damoos" in kernels.names() else kernels.DEBIAN)
        yield
