import pytest

from damoos.damon.scheme import Scheme
from damoos.policies.base import DamosPolicy, NonePolicy, Policy
from damoos.testing.contracts import PolicyContract, WorkloadContract
from damoos.workloads import catalog
from damoos.workloads.base import Tuning, Workload


class TestEveryWorkloadOfTheCatalogue(WorkloadContract):
    @pytest.fixture(params=[(name, found) for name in catalog.names() for found in (None, "/usr/bin/it")])
    def workload(self, request: pytest.FixtureRequest) -> Workload:
        name, found = request.param
        return catalog.workload(name, lambda program: found)


class TestCommand(WorkloadContract):
    @pytest.fixture
    def workload(self) -> Workload:
        return catalog.command("prog --with 'an argument'", Tuning())


class TestNone(PolicyContract):
    @pytest.fixture
    def policy(self) -> Policy:
        return NonePolicy()


class TestDamos(PolicyContract):
    @pytest.fixture
    def policy(self) -> Policy:
        return DamosPolicy((Scheme.parse("4K max  min min  5s max  pageout"),), operations="paddr")
