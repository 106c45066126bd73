import pytest

from damoos.damon.scheme import Context
from damoos.policies import catalog as rules
from damoos.policies.base import DamosPolicy, NonePolicy, Policy
from damoos.testing.contracts import PolicyContract, WorkloadContract
from damoos.testing.policy_contracts import RulePolicyContract
from damoos.workloads import catalog
from damoos.workloads.base import Tuning, Workload


def forms() -> list[tuple[str, str | None]]:
    """Each workload with its program there and, where it has a model, without."""
    names = catalog.names()
    return [(name, "/usr/bin/it") for name in names] + [(name, None) for name in names if not only_real(name)]


def only_real(name: str) -> bool:
    """Whether it can only be the real thing."""
    file = catalog.find(name)[1]
    return file.model is None and file.pattern is None


class TestEveryWorkloadOfTheCatalogue(WorkloadContract):
    @pytest.fixture(params=forms(), ids=str)
    def workload(self, request: pytest.FixtureRequest) -> Workload:
        name, found = request.param
        return catalog.workload(name, catalog.Place(lambda program: found))


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
        return DamosPolicy(Context.parse("4K max  min min  5s max  pageout", "paddr"))


class TestEveryRule(RulePolicyContract):
    @pytest.fixture(params=rules.RULES, autouse=True)
    def _one(self, request: pytest.FixtureRequest) -> None:
        self.rule = rules.RULES[request.param]
