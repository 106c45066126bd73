"""The kernel's own objects in the agent: which part of memory is watched, what is refused, what is undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.agent import kernel_objects
from damoos.agent.kernel_objects import KINDS, PAGES_ROOM, KernelObjects
from damoos.agent.undo import UndoLog
from damoos.errors import UnsupportedError


@pytest.mark.parametrize(("pages", "shift"), [(PAGES_ROOM, 0), (PAGES_ROOM + 1, 1), (8 * PAGES_ROOM, 3)])
def test_of_so_few_pages_lives_are_measured_that_there_is_room(
    monkeypatch: pytest.MonkeyPatch, pages: int, shift: int
) -> None:
    monkeypatch.setattr("os.sysconf", lambda _: pages)
    assert kernel_objects._shift() == shift


@pytest.mark.parametrize("shift", [0, 3])
def test_each_kind_has_variables_of_its_own(shift: int) -> None:
    triggers = [trigger for kind in KINDS for _, trigger in kernel_objects._triggers(kind, shift)]
    assert len(set(triggers)) == 3 * len(KINDS)
    for kind in KINDS:
        assert sum(f":{kind.name}_born=" in trigger for trigger in triggers) == 1
        assert sum(f"-${kind.name}_born" in trigger for trigger in triggers) == 1
    assert any("!(pfn & 0x7)" in trigger for trigger in triggers) == (shift == 3)
    assert not any("ptr &" in trigger for trigger in triggers)  # a cache that is busy is at few addresses


def test_a_kernel_that_cannot_measure_lives_is_refused(tmp_path: Path) -> None:
    log = UndoLog(tmp_path / "undo.json")
    for place in (None, tmp_path):
        with pytest.raises(UnsupportedError, match="cannot measure how long its objects live"):
            KernelObjects(place, log, print, None)
    assert not log


def test_what_an_older_kernel_does_not_tell_of_pages_is_left_out() -> None:
    pages = next(kind for kind in KINDS if kind.by == "order")
    assert kernel_objects._as_told(pages, "\tfield:unsigned char order;\toffset:36;") == pages
    older = kernel_objects._as_told(pages, "\tfield:unsigned long pfn;\toffset:8;")
    assert kernel_objects._fields(older) == "u64 life"
    assert all("order" not in trigger for _, trigger in kernel_objects._triggers(older, 0))


def test_names_of_one_cache_are_told_together(tmp_path: Path) -> None:
    for name, cache in (("damon_region", ":48"), ("file_lock_ctx", ":48"), ("dentry", ":192")):
        (tmp_path / name).symlink_to(cache)
    (tmp_path / ":48").mkdir()
    both = ["damon_region", "file_lock_ctx"]
    assert kernel_objects.merged(tmp_path) == {name: both for name in both}
    assert kernel_objects.merged(tmp_path / "none") == {}


def test_triggers_and_synthetic_events_are_removed(tmp_path: Path) -> None:
    instance, commands = tmp_path / "instance", tmp_path / "dynamic_events"
    trigger = instance / "events" / "kmem" / "kfree" / "trigger"
    trigger.parent.mkdir(parents=True)
    trigger.write_text("hist:keys=ptr:size=16 if !(ptr & 0x7000) [active]\n")
    commands.write_text("s:synthetic/damoos_slab\tu64 life\n")
    log = UndoLog(tmp_path / "undo.json")
    log.record("synthetic_event", path=str(commands), name="damoos_slab")
    log.record("synthetic_event", path=str(commands), name="damoos_kmalloc")  # that was never made
    log.record("triggers", path=str(instance), events=["kmem/kfree", "kmem/gone"])
    assert log.undo() == []
    assert trigger.read_text() == "!hist:keys=ptr:size=16 if !(ptr & 0x7000)\n"
    assert commands.read_text() == "s:synthetic/damoos_slab\tu64 life\n-:damoos_slab\n"
