"""A cache that another user can have written to: programs in it are run, so it is refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from damoos.common import paths
from damoos.common.compiled import PROGRAM_FLAGS, compiled
from damoos.dispatch import ray_token
from damoos.errors import ConfigError
from damoos.machines.bundle import agent_bundle
from tests.adversary.conftest import ATTACKER, needs_two_users
from tests.conftest import damoos


@pytest.fixture
def cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new folder in one as /tmp is."""
    folder = home / "mine/cache"
    folder.mkdir(0o755, parents=True)
    monkeypatch.setenv("DAMOOS_CACHE", str(folder))
    return folder


def planted(folder: Path) -> None:
    """Let an agent of the attacker's lie in a cache under the name that damoos looks for."""
    agent = agent_bundle()
    os.chown(agent, ATTACKER, ATTACKER)
    os.chown(agent.parent, ATTACKER, ATTACKER)
    os.chown(folder, ATTACKER, ATTACKER)
    paths._checked.clear()  # as in a new process


@needs_two_users
def test_an_agent_in_another_user_s_cache_is_not_run(cache: Path) -> None:
    planted(cache)
    with pytest.raises(ConfigError, match=f"the cache {cache} belongs to user {ATTACKER}, .* set DAMOOS_CACHE"):
        agent_bundle()
    with pytest.raises(ConfigError, match=f"belongs to user {ATTACKER}"):
        compiled(Path(__file__), PROGRAM_FLAGS)
    done = damoos("cache", "show")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"{cache} belongs to user {ATTACKER}" in done.stderr


@needs_two_users
@pytest.mark.parametrize("looks", [1, 2])
def test_a_cache_that_another_user_makes_while_it_is_looked_at_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    """After the first look there is no cache; the attacker is quicker than the folder is made, or than it is seen."""
    home.chmod(0o1777)
    folder, seen, look, mkdir = home / "cache", [0], paths.objection_to_use, Path.mkdir
    monkeypatch.setenv("DAMOOS_CACHE", str(folder))

    def plant() -> None:
        if not folder.exists():
            mkdir(folder)
            os.chown(folder, ATTACKER, ATTACKER)

    def objection(path: Path, **options: bool) -> str | None:
        found, seen[0] = look(path, **options), seen[0] + 1
        if looks == 1:
            plant()
        return found

    def make(path: Path, *args: Any, **options: Any) -> None:
        plant()
        mkdir(path, *args, **options)

    monkeypatch.setattr(paths, "objection_to_use", objection)
    monkeypatch.setattr(Path, "mkdir", make)
    for _ in range(2):
        with pytest.raises(ConfigError, match=f"the cache {folder} belongs to user {ATTACKER}"):
            paths.cache()


@needs_two_users
def test_a_home_folder_of_another_user_has_no_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = home / "theirs"
    theirs.mkdir(0o755)
    os.chown(theirs, ATTACKER, ATTACKER)
    monkeypatch.delenv("DAMOOS_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(theirs))
    with pytest.raises(ConfigError, match=f"damoos lies in {theirs}, which belongs to user {ATTACKER}"):
        agent_bundle()
    assert not list(theirs.iterdir())


@needs_two_users
def test_a_link_of_another_user_leads_to_no_cache(home: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = home / "link"
    link.symlink_to(cache)
    os.chown(link, ATTACKER, ATTACKER, follow_symlinks=False)
    for folder in (link, link / "deeper"):
        monkeypatch.setenv("DAMOOS_CACHE", str(folder))
        with pytest.raises(ConfigError, match=f"belongs to user {ATTACKER}"):
            agent_bundle()


@pytest.mark.parametrize("way", ["it", "parent", "link"])
def test_a_cache_that_every_user_may_write_to_is_refused(
    home: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "link":
        (home / "mine/link").symlink_to(home)
        monkeypatch.setenv("DAMOOS_CACHE", str(home / "mine/link"))
    else:
        (cache if way == "it" else cache.parent).chmod(0o777)
    with pytest.raises(ConfigError, match="is writable by every user"):
        agent_bundle()


@needs_two_users
def test_a_part_of_the_cache_that_another_user_has_made_is_refused(cache: Path) -> None:
    planted(cache)
    os.chown(cache, 0, 0)
    with pytest.raises(ConfigError, match=r"/agent: another user can have written to it"):
        agent_bundle()


def test_links_of_one_s_own_lead_to_a_cache(home: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "mine/link").symlink_to("../mine/cache")
    (home / "mine/over").symlink_to(home / "mine/link")
    monkeypatch.setenv("DAMOOS_CACHE", str(home / "mine/over/new"))
    assert agent_bundle().resolve().is_relative_to(cache / "new/agent")


def test_what_is_run_is_closed_to_others_whatever_the_umask(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text("int main(void) { return 0; }\n")
    before = os.umask(0)
    try:
        made = (agent_bundle(), compiled(tmp_path / "one.c", PROGRAM_FLAGS))
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in made] == [0o644, 0o755]
    assert {path.stat().st_mode & 0o777 for path in cache.rglob("*") if path.is_dir()} == {0o755}


def test_a_cache_is_shared_with_a_group_by_its_mode(cache: Path) -> None:
    cache.chmod(0o2775)
    before = os.umask(0o002)
    try:
        assert agent_bundle().parent.stat().st_mode & 0o7777 == 0o2775
    finally:
        os.umask(before)


def test_a_cache_is_made_closed_to_others_for_a_token_too(cache: Path) -> None:
    """It was removed after it had been looked at."""
    paths.cache()
    shutil.rmtree(cache)
    before = os.umask(0)
    try:
        folder = ray_token.folder()
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (cache, folder)] == [0o755, 0o700]
