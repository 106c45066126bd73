"""Processes at their positions: the kernel gives whoever comes into a position the regions that are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from damoos.agent import schemes
from damoos.agent.schemes import MAX_ENDED, SchemeOnProcess
from damoos.agent.undo import UndoLog
from damoos.damon.scheme import Context, Scheme
from damoos.errors import MachineError


class Kernel:
    """As 6.12 does it: targets are matched by position, and a commit that names an ended process fails."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.targets: list[int] = []
        self.regions_of: list[int] = []
        self.on = False

    def create(self, about_to: Any) -> None:
        pass

    def configure(self, context: Context, pids: list[int]) -> None:
        self.written = pids

    def set_targets(self, pids: list[int]) -> None:
        self.written = pids

    def start(self) -> None:
        self._take([])
        self.on = True

    def commit(self) -> None:
        self._take(self.regions_of)

    def _take(self, regions_of: list[int]) -> None:
        if any(not schemes.proc.rss_bytes(pid) for pid in self.written):
            self.on = False
            raise MachineError("EINVAL")
        self.targets = list(self.written)
        self.regions_of = [*regions_of[: len(self.targets)], *self.targets[len(regions_of) :]]

    def is_on(self) -> bool:
        return self.on

    def accepted(self) -> dict[str, str]:
        return {}


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr(schemes, "kdamond", lambda name: kernel)
    return kernel


class Tree:
    """Processes by their memory; 0 has ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rss: dict[int, int] = {}
        real = schemes.proc.rss_bytes
        monkeypatch.setattr(schemes.proc, "rss_bytes", lambda pid: self.rss[pid] if pid in self.rss else real(pid))

    def begin(self, *pids: int) -> None:
        self.rss |= dict.fromkeys(pids, 2 << 20)

    def end(self, *pids: int) -> None:
        self.rss |= dict.fromkeys(pids, 0)

    def __call__(self) -> list[int]:
        return [pid for pid, rss in self.rss.items() if rss]


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> Tree:
    return Tree(monkeypatch)


ROOT, FIRST = 4_194_001, 4_194_100


@pytest.fixture
def scheme(kernel: Kernel, tree: Tree, tmp_path: Path) -> Iterator[SchemeOnProcess]:
    tree.begin(ROOT)
    with SchemeOnProcess(Context((Scheme("pageout"),)), UndoLog(tmp_path / "undo.json")) as scheme:
        scheme.start(ROOT)
        yield scheme


def look_twice(scheme: SchemeOnProcess, tree: Tree) -> None:
    """A process must have been there at two looks."""
    scheme.follow(tree())
    scheme.follow(tree())


def assert_own_regions(kernel: Kernel, tree: Tree) -> None:
    """Each process that lives has the regions that were made for it."""
    for target, regions_of in zip(kernel.targets, kernel.regions_of, strict=True):
        if target in tree():
            assert target == regions_of


def test_the_next_process_does_not_inherit_the_regions_of_one_that_ended(
    scheme: SchemeOnProcess, kernel: Kernel, tree: Tree
) -> None:
    tree.begin(11, 12)
    look_twice(scheme, tree)
    assert kernel.targets == [ROOT, 11, 12]
    tree.end(11)
    tree.begin(13)
    look_twice(scheme, tree)
    assert kernel.targets[0::2] == [ROOT, 12]
    assert kernel.targets[3] == 13
    assert kernel.targets[1] not in (11, 12, 13)
    assert_own_regions(kernel, tree)
    assert scheme.restarts == 0


def test_the_stand_in_is_gone_at_the_end(kernel: Kernel, tree: Tree, tmp_path: Path) -> None:
    tree.begin(ROOT, 11)
    with SchemeOnProcess(Context((Scheme("pageout"),)), UndoLog(tmp_path / "undo.json")) as scheme:
        scheme.start(ROOT)
        look_twice(scheme, tree)
        tree.end(11)
        tree.begin(12)
        look_twice(scheme, tree)
        stand_in = kernel.targets[1]
        assert Path(f"/proc/{stand_in}/comm").read_text() == "sleep\n"
    assert not Path(f"/proc/{stand_in}").exists()


def test_many_processes_that_end_do_not_make_the_list_endless(
    scheme: SchemeOnProcess, kernel: Kernel, tree: Tree
) -> None:
    """A build: two compilers at a time, one after the other."""
    for number in range(FIRST, FIRST + 100):
        tree.begin(number)
        look_twice(scheme, tree)
        assert_own_regions(kernel, tree)
        assert len(kernel.targets) <= MAX_ENDED + 4
        tree.end(number - 1)
    assert scheme.restarts == 0


def test_an_end_between_the_look_and_the_commit_starts_anew(
    scheme: SchemeOnProcess, kernel: Kernel, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.begin(11, 12)
    scheme.follow(tree())
    set_targets = kernel.set_targets

    def ends_then(pids: list[int]) -> None:
        set_targets(pids)
        tree.end(11)

    monkeypatch.setattr(kernel, "set_targets", ends_then)
    scheme.follow([ROOT, 11, 12])
    assert scheme.restarts == 1
    assert kernel.targets[0::2] == [ROOT, 12]


def test_a_scheme_is_changed_after_a_process_has_ended(scheme: SchemeOnProcess, kernel: Kernel, tree: Tree) -> None:
    tree.begin(11)
    look_twice(scheme, tree)
    tree.end(11)
    scheme.commit(Context((Scheme("cold"),)))
    assert kernel.targets[0] == ROOT
    assert len(kernel.targets) == 2


def test_a_refusal_with_nobody_gone_is_told(scheme: SchemeOnProcess, kernel: Kernel, tree: Tree) -> None:
    def refuse() -> None:
        raise MachineError("refused")

    tree.begin(11)
    scheme.follow(tree())
    kernel.commit = refuse  # type: ignore[method-assign]
    with pytest.raises(MachineError, match="refused"):
        scheme.follow(tree())
