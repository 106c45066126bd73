from pathlib import Path

import pytest

from damoos.scorers import SCORERS, scorer
from damoos.testing.contracts import ScorerContract


class TestDaos(ScorerContract):
    make = SCORERS["daos"]


class TestSla(ScorerContract):
    make = SCORERS["sla"]


class TestSlaOfLatency(ScorerContract):
    def make(self):
        return scorer("sla", {"minimize": "p99_ms", "limits": ["slowdown<=0.05", "p50_ms<=1.2x"]})


class TestWeighted(ScorerContract):
    make = SCORERS["weighted"]


class TestPsi(ScorerContract):
    make = SCORERS["psi"]


class TestCost(ScorerContract):
    @pytest.fixture(autouse=True)
    def prices(self, tmp_path: Path) -> None:
        self.file = tmp_path / "prices.toml"
        self.file.write_text("gib_hour = 0.004\ncore_hour = 0.04\n")

    def make(self):
        return scorer("cost", {"prices": str(self.file)})


class TestFile(ScorerContract):
    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "mine.py"
        self.path.write_text(
            'needs = ("runtime_s", "ops")\n'
            "def score(run, baseline):\n"
            "    return run['ops'] / baseline['ops'] if run['runtime_s'] <= baseline['runtime_s'] else None\n"
        )

    def make(self):
        return scorer(f"{self.path}:score")


class TestProgram(ScorerContract):
    @pytest.fixture(autouse=True)
    def program(self, tmp_path: Path) -> None:
        self.path = tmp_path / "sf.sh"
        self.path.write_text(
            "#!/bin/sh\n# damoos: direction=minimize needs=runtime_s,rss_avg_bytes unit=s\n"
            'sed \'s/.*"run": {[^}]*"runtime_s": \\([0-9.]*\\).*/\\1/\'\n'
        )
        self.path.chmod(0o755)

    def make(self):
        return scorer(str(self.path))


def test_every_scorer_has_its_contract_test() -> None:
    own = {cls.make for cls in (TestDaos, TestSla, TestWeighted, TestPsi)}
    assert own | {SCORERS["cost"]} == set(SCORERS.values())
