from damoos.searchers import SEARCHERS, searcher
from damoos.searchers.optuna import sampler_names
from damoos.testing.contracts import SearcherContract


class TestAuto(SearcherContract):
    make = SEARCHERS["auto"]


class TestDaos(SearcherContract):
    make = SEARCHERS["daos"]
    one_parameter_only = True


class TestRandom(SearcherContract):
    make = SEARCHERS["random"]


class TestGrid(SearcherContract):
    make = SEARCHERS["grid"]


class TestAnneal(SearcherContract):
    make = SEARCHERS["anneal"]


class TestBayes(SearcherContract):
    make = SEARCHERS["bayes"]


class OptunaContract(SearcherContract):
    sampler: str

    def make(self, space, nr_samples, seed):
        return searcher(f"optuna:{self.sampler}", space, nr_samples, seed)


class TestTpe(OptunaContract):
    sampler = "tpe"


class TestCmaEs(OptunaContract):
    sampler = "cmaes"


class TestQmc(OptunaContract):
    sampler = "qmc"


class TestNsgaIi(OptunaContract):
    sampler = "nsgaii"


def test_every_searcher_has_its_contract_test() -> None:
    tested = {cls.make for cls in (TestAuto, TestDaos, TestRandom, TestGrid, TestAnneal, TestBayes)}
    assert tested == set(SEARCHERS.values())


def test_optunas_samplers_are_found_by_their_names() -> None:
    assert {"tpe", "cmaes", "qmc", "nsgaii", "nsgaiii", "random", "gp", "grid"} <= set(sampler_names())
