from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from damoos.errors import ConfigError
from damoos.service.journal import KEEP
from damoos.service.specification import name_of, parse_on, specification
from tests.conftest import proven_study


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("unit:redis.service", {"kind": "unit", "name": "redis.service"}),
        ("unit:redis", {"kind": "unit", "name": "redis.service"}),
        ("unit:machine.slice", {"kind": "unit", "name": "machine.slice"}),
        ("cgroup:/system.slice", {"kind": "cgroup", "path": "/system.slice"}),
        ("pid:4711", {"kind": "pid", "pid": 4711}),
        ("pid-file:/run/redis.pid", {"kind": "pid_file", "path": "/run/redis.pid"}),
        ("match:exe=redis-server", {"kind": "match", "what": "exe", "value": "redis-server"}),
        ("match:user=www-data", {"kind": "match", "what": "user", "value": "www-data"}),
        ("machine", {"kind": "machine"}),
    ],
)
def test_processes(text: str, found: dict[str, Any]) -> None:
    assert parse_on(text) == found


@pytest.mark.parametrize(
    ("on", "name"),
    [
        ("unit:redis.service", "redis"),
        ("cgroup:/system.slice/redis.service", "redis"),
        ("cgroup:/kubepods/burstable/", "burstable"),
        ("pid:4711", "pid-4711"),
        ("pid-file:/run/redis/redis-server.pid", "redis-server"),
        ("match:exe=redis-server", "redis-server"),
        ("machine", "machine"),
    ],
)
def test_names_in_service(on: str, name: str) -> None:
    assert name_of(on) == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("redis", "--on 'redis': unknown kind 'redis'"),
        ("uint:redis", "unknown kind 'uint'; did you mean 'unit'?"),
        ("unit:", "--on 'unit:': write unit:NAME.service"),
        ("machine:all", "--on 'machine:all': write machine"),
        ("pid:redis", "'redis' is not a process id"),
        ("pid:0", "'0' is not a process id"),
        ("match:redis", "write one of match:exe=..., match:name=..., match:user=..."),
        ("match:cmd=redis", "write one of match:exe="),
    ],
)
def test_words_that_name_no_processes(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_on(text)
    assert message in str(caught.value)


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Results with a study of a DAMOS scheme and one of senpai, and their names."""
    results = tmp_path_factory.mktemp("results")
    scheme, rule = proven_study(results, tune=["min_age=3s:5s"]), proven_study(results, policy="senpai")
    return results, {"scheme": scheme, "rule": rule}


def test_an_age_that_adapts_is_told_to_the_keeper(studies: tuple[Path, dict[str, str]]) -> None:
    results, names = studies
    fixed = specification(names["scheme"], results, on="pid:7")
    adapted = specification(names["scheme"], results, on="pid:7", adapt=True, on_exit=KEEP)
    assert (fixed["proven_us"], fixed["on_exit"]) == (0, "undo")
    assert 3_000_000 <= adapted["proven_us"] <= 5_000_000
    assert adapted["on_exit"] == "keep"


@pytest.mark.parametrize(
    ("study", "more", "message"),
    [
        ("rule", {"adapt": True}, "--adapt: senpai steers itself"),
        ("rule", {"on_exit": "keep"}, "--on-exit keep: the policy has a rule that somebody must follow"),
        ("scheme", {"on_exit": "keep", "on": None, "machine": "guest"}, "--on-exit keep: the program is damoos's own"),
        ("scheme", {"on_exit": "kep"}, "unknown word 'kep'; did you mean 'keep'? (--on-exit)"),
        ("scheme", {"arm": "none", "adapt": True}, "--adapt moves the min_age of a scheme that pages out"),
    ],
)
def test_what_cannot_adapt_or_stay(
    studies: tuple[Path, dict[str, str]], study: str, more: dict[str, Any], message: str
) -> None:
    results, names = studies
    with pytest.raises(ConfigError) as caught:
        specification(names[study], results, **{"on": "pid:7", **more})
    assert message in str(caught.value)


def test_the_file_of_a_machine_is_named_by_its_whole_path(
    studies: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keeper runs in another folder, as one of a systemd unit does, and so may 'damoos stop'."""
    results, names = studies
    (tmp_path / "host.toml").write_text('description = "x"\n[ssh]\nhost = "10.0.0.7"\n')
    monkeypatch.chdir(tmp_path)
    for machine in ("host.toml", "./host.toml", f"{tmp_path}/host.toml"):
        spec = specification(names["scheme"], results, on="unit:redis", machine=machine)
        assert spec["machine"] == spec["run"]["machine"] == f"{tmp_path}/host.toml"
