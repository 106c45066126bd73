import pytest

from damoos.machines.base import Machine
from damoos.machines.catalog import machine as named
from damoos.testing.contracts import MachineContract
from damoos.testing.fake import FakeMachine


class TestFake(MachineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def machine(cls) -> Machine:
        return FakeMachine()


class TestLocal(MachineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def machine(cls) -> Machine:
        return named("local")
