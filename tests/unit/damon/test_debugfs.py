"""DAMON's debugfs files, on a fake tree; what a real kernel does with them is tested in guests."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.damon.attrs import Attrs, IntervalsGoal
from damoos.damon.debugfs import PLACE, DebugfsKdamond
from damoos.damon.filters import Filter
from damoos.damon.interface import kdamond, probe, used_by_others
from damoos.damon.quotas import Goal, Quotas
from damoos.damon.scheme import Context, Scheme, Watermarks
from damoos.errors import MachineBusy, MachineError, UnsupportedError

PRCL = Scheme.parse("4K max  min min  5s max  pageout")
ATTRS = "5000 100000 60000000 10 1000\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An idle DAMON, whose files keep what is written, as the kernel's do."""
    folder = tmp_path / PLACE
    folder.mkdir(parents=True)
    files = {"attrs": ATTRS, "target_ids": "\n", "schemes": "", "init_regions": "", "kdamond_pid": "none\n"}
    for name, text in {**files, "monitor_on": "off\n"}.items():
        (folder / name).write_text(text)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/iomem").write_text("00001000-0009ffff : System RAM\n00100000-001fffff : System RAM\n")
    return folder


def root(place: Path) -> Path:
    return place.parents[3]


def made(place: Path) -> DebugfsKdamond:
    one = kdamond(root(place))
    assert isinstance(one, DebugfsKdamond)
    one.create()
    return one


def test_a_scheme_is_a_line_of_18_numbers(place: Path) -> None:
    one = made(place)
    scheme = Scheme(
        "hugepage",
        PRCL.pattern,
        quotas=Quotas(10, 4096, 1000, weight_age_permil=7),
        watermarks=Watermarks("free_mem_rate", 5_000_000, 500, 400, 200),
    )
    one.configure(Context((PRCL, scheme)), [4711, 4712])
    first, second = (place / "schemes").read_text().splitlines()
    assert first == "4096 18446744073709551615 0 0 50 4294967295 2 0 0 0 0 0 0 0 0 0 0 0"
    assert second == "4096 18446744073709551615 0 0 50 4294967295 3 10 4096 1000 0 0 7 1 5000000 500 400 200"
    assert (place / "attrs").read_text() == "5000 100000 1000000 10 1000\n"
    one.start()
    assert (place / "target_ids").read_text() == "4711 4712\n"
    assert one.accepted()["schemes/1/action"] == "hugepage"
    assert one.accepted()["schemes/0/access_pattern/age/min"] == "50"
    assert one.accepted()["monitoring_attrs/intervals/update_us"] == "1000000"


def test_physical_memory_is_named(place: Path) -> None:
    one = made(place)
    one.configure(Context((Scheme("stat"),), operations="paddr"), [])
    one.start()
    assert (place / "target_ids").read_text() == "paddr\n"
    assert (place / "init_regions").read_text().splitlines() == ["0 4096 655360", "0 1048576 2097152"]


def test_statistics_outlive_a_change(place: Path) -> None:
    one = made(place)
    one.configure(Context((PRCL,)), [4711])
    one.start()
    (place / "schemes").write_text("4096 18446744073709551615 0 0 50 4294967295 2" + " 0" * 11 + " 1 2 3 4 5\n")
    assert one.stats()[0].sz_applied_bytes == 4
    one.configure(Context((Scheme.parse("4K max  min min  9s max  pageout"),)), [4711])
    assert not one.is_on()
    one.commit()
    (place / "schemes").write_text("4096 18446744073709551615 0 0 90 4294967295 2" + " 0" * 11 + " 1 2 3 40 5\n")
    assert one.stats()[0].sz_applied_bytes == 44


def test_what_was_there_comes_back(place: Path) -> None:
    former: dict[str, object] = {}
    one = DebugfsKdamond(root(place))
    one.create(about_to=former.update)
    assert former == {"interface": "debugfs", "attrs": ATTRS.strip()}
    one.configure(Context((PRCL,)), [4711])
    one.start()
    one.remove(former)
    assert (place / "attrs").read_text() == ATTRS
    assert used_by_others(root(place)) == ""


@pytest.mark.parametrize(
    ("file", "text", "sign"),
    [
        ("monitor_on", "on\n", "monitor_on is on"),
        ("target_ids", "42\n", "target_ids is not empty"),
        ("schemes", "0 0 0\n", "schemes is not empty"),
        ("theirs/attrs", ATTRS, "there is a context 'theirs'"),
    ],
)
def test_what_somebody_else_uses_is_left_alone(place: Path, file: str, text: str, sign: str) -> None:
    (place / file).parent.mkdir(exist_ok=True)
    (place / file).write_text(text)
    for attempt in (lambda: DebugfsKdamond(root(place)).create(), lambda: probe(root(place))):
        with pytest.raises(MachineBusy, match=sign):
            attempt()
    assert (place / file).read_text() == text


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (Context((Scheme("migrate_cold"),)), "takes no 'migrate_cold' as schemes/0/action"),
        (Context((Scheme("stat", filters=(Filter("anon"),)),)), "has no schemes/0/filters"),
        (
            Context((Scheme("stat", quotas=Quotas(0, 0, 1000, goals=(Goal("user_input", 1),))),)),
            "has no schemes/0/quotas/goals/nr_goals",
        ),
        (Context((Scheme("stat", apply_interval_us=100_000),)), "has no schemes/0/apply_interval_us"),
        (Context((Scheme("stat", target_nid=0),)), "has no schemes/0/target_nid"),
        (Context((Scheme("stat"),), operations="fvaddr"), "no operations 'fvaddr'"),
        (Context((Scheme("stat"),), attrs=Attrs(goal=IntervalsGoal())), "intervals_goal/access_bp"),
    ],
)
def test_what_this_interface_lacks_is_said_and_nothing_is_written(place: Path, context: Context, message: str) -> None:
    one = made(place)
    with pytest.raises(UnsupportedError, match=message):
        one.configure(context, [1])
    assert (place / "schemes").read_text() == ""
    assert (place / "attrs").read_text() == ATTRS
    with pytest.raises(UnsupportedError, match="does not report its regions"):
        one.regions()


def test_another_form_of_schemes_is_noticed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """5.15 reads seven numbers a scheme, so that one line of ours becomes three of its own."""
    monkeypatch.setattr("damoos.damon.debugfs.read", lambda path: "1 2 3 4 5 6 2\n" if path.name == "schemes" else "")
    with pytest.raises(UnsupportedError, match="another form"):
        DebugfsKdamond(root(place)).configure(Context((PRCL,)), [1])


def test_a_kdamond_that_does_not_start_is_noticed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = made(place)
    one.configure(Context((PRCL,)), [4711])
    monkeypatch.setattr(one, "is_on", lambda: False)
    with pytest.raises(MachineError, match="did not start"):
        one.start()
    assert one.pid == -1


def test_a_kdamond_that_runs_goes_on_when_a_change_is_refused(place: Path) -> None:
    one = made(place)
    one.configure(Context((PRCL,)), [4711])
    one.start()
    with pytest.raises(UnsupportedError, match="intervals_goal/access_bp"):
        one.configure(Context((PRCL,), attrs=Attrs(goal=IntervalsGoal())), [4711])
    assert one.is_on()
