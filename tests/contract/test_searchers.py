from damoos.searchers import SEARCHERS
from damoos.testing.contracts import SearcherContract


class TestDaos(SearcherContract):
    make = SEARCHERS["daos"]


class TestRandom(SearcherContract):
    make = SEARCHERS["random"]


def test_every_searcher_has_its_contract_test() -> None:
    tested = {cls.make for cls in (TestDaos, TestRandom)}
    assert tested == set(SEARCHERS.values())
