"""The kernel's own objects in the agent: which part of memory is watched, what is refused, what is undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.agent import kernel_objects
from damoos.agent.kernel_objects import KINDS, ROOM, KernelObjects
from damoos.agent.undo import UndoLog
from damoos.errors import UnsupportedError


@pytest.mark.parametrize(
    ("pages", "objects", "shift"),
    [(ROOM, 1, 0), (ROOM + 1, 1, 1), (8 * ROOM, 1, 3), (1, ROOM, 1), (1, 4 * ROOM, 3)],
)
def test_so_small_a_part_is_watched_that_there_is_room(
    monkeypatch: pytest.MonkeyPatch, pages: int, objects: int, shift: int
) -> None:
    monkeypatch.setattr("os.sysconf", lambda _: pages)
    monkeypatch.setattr(kernel_objects, "_slabinfo", lambda: [["dentry", str(objects)]])
    assert kernel_objects._shift() == shift


@pytest.mark.parametrize("shift", [0, 3])
def test_each_kind_has_variables_of_its_own(shift: int) -> None:
    triggers = [trigger for kind in KINDS for _, trigger in kernel_objects._triggers(kind, shift)]
    assert len(set(triggers)) == 3 * len(KINDS)
    for kind in KINDS:
        assert sum(f":{kind.name}_born=" in trigger for trigger in triggers) == 1
        assert sum(f"-${kind.name}_born" in trigger for trigger in triggers) == 1
    assert any("!(pfn & 0x7)" in trigger for trigger in triggers) == (shift == 3)
    assert any("!(ptr & 0x7000)" in trigger for trigger in triggers) == (shift == 3)


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
