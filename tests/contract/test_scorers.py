from damoos.scorers import SCORERS
from damoos.testing.contracts import ScorerContract


class TestDaos(ScorerContract):
    make = SCORERS["daos"]


def test_every_scorer_has_its_contract_test() -> None:
    assert {TestDaos.make} == set(SCORERS.values())
