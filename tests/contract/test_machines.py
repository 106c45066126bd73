from collections.abc import Iterator

import pytest

from damoos.machines.base import Machine
from damoos.machines.catalog import machine as named
from damoos.testing.contracts import MachineContract
from damoos.testing.fake import FakeMachine
from tests.conftest import the_only_agent


class TestFake(MachineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def machine(cls) -> Machine:
        return FakeMachine()


class TestLocal(MachineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def machine(cls) -> Iterator[Machine]:
        with the_only_agent():
            yield named("local")
