"""The account of a run: the machine's, or a user id that nothing there has."""

from __future__ import annotations

import os
import pwd

import pytest

from damoos.agent import accounts, proc
from damoos.agent.accounts import Account, account
from damoos.errors import UnsupportedError


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that is root, and has given no id away."""
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
    monkeypatch.setattr(proc, "uids", lambda pid: [0, 61184, 0, 0])
    monkeypatch.setattr(accounts, "_is_known", lambda number: number == 61185)
    assert account("damoos-test-a") == Account("damoos-test-a", 61186, 61186)
    assert account("damoos-test-b") == Account("damoos-test-b", 61187, 61187)
    assert account("damoos-test-a") == Account("damoos-test-a", 61186, 61186)


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
