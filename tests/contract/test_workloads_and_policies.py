import re
from pathlib import Path

import pytest

from damoos.damon.scheme import Context
from damoos.policies import catalog as rules
from damoos.policies.base import DamosPolicy, NonePolicy, Policy
from damoos.testing.contracts import PolicyContract, WorkloadContract
from damoos.testing.policy_contracts import RulePolicyContract
from damoos.workloads import catalog
from damoos.workloads.base import Tuning, Workload
from damoos.workloads.catalog import WorkloadFile


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


SERVERS = [name for name in catalog.names() if any(real.load for real in catalog.find(name)[1].real)]
# Those that listen without being servers: their parts talk to each other.
LISTENERS = ["spark/terasort"]
# What would let other users of the machine in: a folder of theirs, all addresses, all rights, and no password.
OPEN = re.compile(r"/tmp|0\.0\.0\.0|777|\btrust\b|--user=root|user root|user=root")


class TestEveryServerOfTheCatalogue:
    """No other user of the machine gets at it, and no other server is taken for it."""

    @pytest.fixture(params=SERVERS)
    def server(self, request: pytest.FixtureRequest) -> tuple[Path, WorkloadFile]:
        """Its file."""
        return catalog.find(request.param)

    def test_it_has_a_user_and_an_address_of_its_own(self, server: tuple[Path, WorkloadFile]) -> None:
        for real in server[1].real:
            assert real.load
            assert real.user
            assert real.load.address
            assert ":" not in real.load.address or real.network == "own"

    def test_nothing_of_it_is_open_to_others(self, server: tuple[Path, WorkloadFile]) -> None:
        """Its words, and all files that its words bring along."""
        path, file = server
        texts = [file.model_dump_json()]
        texts += [(path.parent / name).read_text() for text in texts for name in re.findall(r"\{file:([^{}]+)\}", text)]
        assert [match for text in texts for match in OPEN.findall(text)] == []


def test_servers_are_found() -> None:
    assert {"redis/idle", "mariadb/sysbench", "postgres/idle", "cassandra/ycsb", "containers/redis"} <= set(SERVERS)


@pytest.mark.parametrize("name", LISTENERS)
def test_what_listens_for_itself_has_a_network_of_its_own(name: str) -> None:
    assert [real.network for real in catalog.find(name)[1].real] == ["own"]


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
