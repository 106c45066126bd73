"""The account of a run: the machine's, or a user id that nothing there has."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from damoos.agent import accounts, proc
from damoos.agent.accounts import Account, account
from damoos.errors import UnsupportedError


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that is root, on a machine that has just booted."""
    monkeypatch.setattr(accounts, "state_folder", lambda: tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(accounts, "_given", {})


def entry(name: str, uid: int, gid: int) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, gid, "", "/", "/bin/sh"))


def test_an_account_of_the_machine_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwnam", lambda name: entry(name, 101, 104))
    assert account("redis") == Account("redis", 101, 104)


def test_without_a_name_and_without_root_it_is_the_agent_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert account(None) is None
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert account("redis") is None


def test_a_free_id_is_given_to_each_name_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one that an account, a group or a process has."""
    monkeypatch.setattr(proc, "all_pids", lambda: [1])
    monkeypatch.setattr(accounts, "_FREE_IDS", range(61184, 61188))
    monkeypatch.setattr(proc, "uids", lambda pid: [0, 61184, 0, 0])
    monkeypatch.setattr(accounts, "_is_known", lambda number: number == 61185)
    first, second = account("damoos-test-a"), account("damoos-test-b")
    assert first
    assert second
    assert {first.uid, second.uid} == {61186, 61187}
    assert account("damoos-test-a") == first == Account("damoos-test-a", first.uid, first.uid)


def test_no_id_is_given_twice_by_agents_until_all_were_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set-id file that a hostile program leaves makes nobody the account of a later run."""
    monkeypatch.setattr(accounts, "_FREE_IDS", range(61184, 61224))
    monkeypatch.setattr(accounts, "_is_known", lambda number: False)
    monkeypatch.setattr(proc, "all_pids", lambda: [])

    def by_a_new_agent(name: str) -> int:
        monkeypatch.setattr(accounts, "_given", {})
        taken = account(name)
        assert taken
        return taken.uid

    ids = [by_a_new_agent(f"damoos-test-{nth}") for nth in range(40)]
    assert ids != sorted(ids)  # by chance once in 40! times
    assert set(ids) == set(range(61184, 61224))
    assert [by_a_new_agent("damoos-test-a"), by_a_new_agent("damoos-test-b")] == ids[:2]  # those used longest ago


@pytest.mark.parametrize("uid", [0, 65534])
def test_an_account_that_is_root_or_nobody_is_none(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(pwd, "getpwnam", lambda name: entry(name, uid, uid))
    taken = account("redis")
    assert taken is not None
    assert taken.uid in range(61184, 65520)


def test_a_machine_without_a_free_id_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "_is_known", lambda number: True)
    with pytest.raises(UnsupportedError, match="no account 'damoos-test', and no user id from 61184 to 65519 is free"):
        account("damoos-test")


RAISES = """
import contextlib, resource
with contextlib.suppress(ValueError):
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (-1, -1))
"""
TELLS = "import os, resource; print(os.getresuid()[0], os.getgroups(), resource.getrlimit(resource.RLIMIT_MEMLOCK))"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_process_that_enters_has_its_user_s_rights_and_root_s_limits() -> None:
    def printed(code: str, enter: Callable[[], None] | None) -> str:
        argv = ["/usr/bin/python3", "-S", "-c", code]
        return subprocess.run(argv, preexec_fn=enter, cwd="/", capture_output=True, text=True, check=True).stdout

    of_root = printed(f"{RAISES}{TELLS}", None)
    assert printed(TELLS, Account("test", 61236, 61236).enter) == f"61236 [] {of_root[of_root.index('(') :]}"
