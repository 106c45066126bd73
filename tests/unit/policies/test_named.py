"""The names of configurations, and the scheme files that ship, against what their sources list."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from damoos.common import paths
from damoos.damon.pattern import AccessPattern
from damoos.damon.scheme import Context, Scheme, parse_schemes
from damoos.errors import ConfigError
from damoos.policies import named
from damoos.policies.base import DamosPolicy, NonePolicy, RecordPolicy, ThpPolicy, limited
from damoos.policies.catalog import RULES
from damoos.study.evaluation_config import EvaluationConfig

MIB, S, MINUTE = 1 << 20, 1_000_000, 60_000_000


def scheme(action: str, min_sz=0, min_freq=0, max_freq=None, min_age_us=0) -> Scheme:
    top = None if max_freq is None else Fraction(max_freq)
    return Scheme(action, AccessPattern(min_sz, None, Fraction(min_freq), top, min_age_us, None))


# damoos's own, and the kernel's modules.
RECIPES = (
    "psi-reclaim", "node-memcg", "cold-group", "working-set", "lru-sort", "ethp-collapse", "damon_reclaim",
    "damon_lru_sort",
)  # fmt: skip
# Copied from the paper and the patch set by hand, in the kernel's units.
PUBLISHED = {
    "prcl": [scheme("pageout", 4096, max_freq=0, min_age_us=5 * S)],
    "ethp": [scheme("hugepage", min_freq=5), scheme("nohugepage", 2 * MIB, max_freq=0, min_age_us=7 * S)],
    "listing1-prcl": [scheme("pageout", max_freq=0, min_age_us=2 * MINUTE)],
    "listing1-ethp": [
        scheme("hugepage", 2 * MIB, min_freq=80, min_age_us=MINUTE),
        scheme("nohugepage", max_freq=5, min_age_us=MINUTE),
    ],
    "v8-prcl": [scheme("pageout", 4096, max_freq=5, min_age_us=S // 2)],
    "v8-ethp": [
        scheme("hugepage", 2 * MIB, min_freq=5),
        scheme("nohugepage", 2 * MIB, max_freq=5, min_age_us=S),
    ],
    "v8-plans": [
        scheme("willneed", min_freq=80, max_freq=90, min_age_us=S // 10),
        scheme("cold", min_freq=10, max_freq=20, min_age_us=S // 10),
        scheme("pageout", max_freq=10, min_age_us=S // 10),
        scheme("hugepage", 2 * MIB, min_freq=90, max_freq=99, min_age_us=S // 10),
        scheme("nohugepage", 2 * MIB, max_freq=25, min_age_us=S // 10),
    ],
}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_shipped_file_says_what_its_source_says(name: str) -> None:
    text = (paths.data("schemes") / f"{name}.damos").read_text()
    assert list(parse_schemes(text)) == PUBLISHED[name]
    assert "Source: " in text


def test_every_shipped_file_is_held_against_its_source() -> None:
    assert {path.stem for path in paths.data("schemes").iterdir()} == {*PUBLISHED, *RECIPES}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_what_was_measured_of_it(name: str) -> None:
    text = (paths.data("schemes") / f"{name}.damos").read_text()
    assert "Measured: " in text
    assert isinstance(named.policy(named.resolve([name])[name]), DamosPolicy)


def test_the_six_configurations() -> None:
    forms = named.resolve(named.PAPER)
    assert tuple(forms) == named.PAPER
    policies = {name: named.policy(form) for name, form in forms.items()}
    assert policies["baseline"] == NonePolicy()
    assert policies["rec"] == RecordPolicy("vaddr")
    assert policies["prec"] == RecordPolicy("paddr")
    assert policies["thp"] == ThpPolicy("always")
    assert policies["ethp"] == DamosPolicy(Context(tuple(PUBLISHED["ethp"])), thp="madvise")
    assert policies["prcl"] == DamosPolicy(Context(tuple(PUBLISHED["prcl"])))


def test_the_baseline_comes_first_and_unasked() -> None:
    assert list(named.resolve(["prcl"])) == ["baseline", "prcl"]
    assert list(named.resolve(["prcl", "baseline"])) == ["baseline", "prcl"]


def test_a_users_own_file_is_kept_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "mine.damos"
    file.write_text("# mine\n4K max  min min  2s max  pageout\n")
    forms = named.resolve([str(file)], "paddr")
    file.unlink()
    assert forms["mine"] == {"scheme": "4K max  min min  2s max  pageout", "operations": "paddr"}
    assert named.policy(forms["mine"]).spec()["context"] is not None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["etph"], "unknown configuration 'etph'; did you mean 'ethp'"),
        (["prcl", "prcl"], "'prcl' is given twice"),
        (["baseline", "baseline"], "'baseline' is given twice"),
        (["gone.damos"], "gone.damos: No such file"),
        (["empty.damos"], "empty.damos: it holds no scheme"),
        (["bad.damos"], "bad.damos: line 1, column 26: unknown action 'pagout'; did you mean 'pageout'"),
        (["thp.damos"], "'thp' is the name of a built-in configuration"),
        (["prcl", "prcl.damos"], "'prcl' is given twice"),
        (["binary.damos"], "not a text file"),
    ],
)
def test_wrong_words(words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty.damos").write_text("# nothing\n")
    (tmp_path / "bad.damos").write_text("4K max  min min  5s max  pagout\n")
    (tmp_path / "thp.damos").write_text("4K max  min min  5s max  pageout\n")
    (tmp_path / "prcl.damos").write_text("4K max  min min  5s max  pageout\n")
    (tmp_path / "binary.damos").write_bytes(b"\xff\xfe")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        named.resolve(words)


def test_under_a_limit_of_writes_every_policy_runs_twice_and_the_baseline_once() -> None:
    configs = named.resolve(["prcl", "senpai"])
    forms = named.write_limited(configs, "1M")
    assert list(forms) == ["baseline", "prcl", "prcl@1M/s", "senpai", "senpai@1M/s"]
    assert forms["prcl@1M/s"] == {**configs["prcl"], "write_limit": MIB}
    under = limited(named.policy(forms["prcl@1M/s"]), {}, 0.0, forms["prcl@1M/s"]["write_limit"])
    assert under.spec()["swap_write_bytes_per_s"] == MIB
    assert limited(NonePolicy(), {}, 0.0, MIB) == NonePolicy()
    both = named.write_limited(named.limited(configs, ["high:60%"]), "1M")
    assert list(both)[:3] == ["baseline", "baseline@high:60%", "prcl@high:60%"]


def test_a_hard_limit_of_memory_and_one_of_writes_are_refused_together() -> None:
    forms = named.write_limited(named.limited(named.resolve(["prcl"]), ["60%"]), "1M")
    with pytest.raises(ConfigError, match=r"prcl@60%@1M/s.*use --memory high"):
        EvaluationConfig(workload="redis/idle", machine="guest", configs=forms)
    with pytest.raises(ConfigError, match="not above 0"):
        named.write_limit("0")


@pytest.mark.parametrize("name", [name for name in RULES if RULES[name].tuned])
def test_the_default_point_is_the_default_policy(name: str) -> None:
    rule = RULES[name]
    params = rule.space()
    if not any(param.choices for param in params):
        assert rule.at(params, rule.default_point(params)) == rule.defaults()
    assert [param.name for param in params] == list(rule.tuned)
