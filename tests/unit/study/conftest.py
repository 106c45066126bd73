"""Studies on a machine that is not there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from damoos.machines import catalog
from damoos.testing.fake import FakeMachine


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeMachine], FakeMachine]:
    """Every name is that of the machine that is given."""

    def use(machine: FakeMachine) -> FakeMachine:
        monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: machine)
        return machine

    return use
