"""Rules that run in user space, on a cgroup that is not there: what they ask for, against their equations."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.agent.controllers import controller, senpai_tiers
from damoos.agent.controllers.senpai import Senpai
from damoos.agent.undo import UndoLog
from damoos.errors import ConfigError, UnsupportedError
from damoos.policies import catalog
from damoos.policies.catalog import parse
from damoos.policies.senpai import SenpaiPolicy

CURRENT = 200 << 20


class Group:
    """The files of a cgroup; what is asked of it is kept."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self.stall("memory", 0)
        self.stall("io", 0)
        (folder / "memory.current").write_text(f"{CURRENT}\n")
        (folder / "memory.reclaim").write_text("")

    def stall(self, kind: str, total_us: int) -> None:
        lines = (f"{word} avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}" for word in ("some", "full"))
        (self.path / f"{kind}.pressure").write_text("\n".join(lines) + "\n")

    def asked(self) -> int:
        text = (self.path / "memory.reclaim").read_text()
        (self.path / "memory.reclaim").write_text("")
        return int(text or 0)


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


def senpai(group: Group, words: str = "senpai") -> Senpai:
    made = controller(parse(words).spec()["controller"], group.path)
    assert isinstance(made, Senpai)
    made.begin(100.0, UndoLog(group.path / "undo.json"))
    return made


def test_senpais_step_response_is_the_papers_equation(group: Group) -> None:
    """reclaim = current x 0.0005 x max(0, 1 - some / 0.1 %), every 6 s, from the pressure of those 6 s."""
    rule, total_us = senpai(group), 0
    for period, share in enumerate((0.0, 0.0005, 0.00075, 0.001, 0.5, 0.0), start=1):
        total_us += round(share * 6e6)
        group.stall("memory", total_us)
        assert rule.step(100 + 6 * period - 0.01) == pytest.approx(100 + 6 * period)
        assert group.asked() == 0  # not yet
        rule.step(100 + 6 * period)
        assert group.asked() == pytest.approx(CURRENT * 0.0005 * max(0.0, 1 - share / 0.001), abs=1)
    told = rule.told()
    assert told["columns"] == ["t_s", "current_bytes", "some", "io_some", "asked_bytes"]
    assert [row[0] for row in told["decisions"]] == pytest.approx([6, 12, 18, 24, 30, 36])
    assert [row[2] for row in told["decisions"]] == pytest.approx([0, 0.0005, 0.00075, 0.001, 0.5, 0])


def test_pressure_on_io_counts_as_well(group: Group) -> None:
    rule = senpai(group)
    group.stall("io", 3000)
    rule.step(106)
    assert group.asked() == pytest.approx(CURRENT * 0.0005 / 2, abs=1)


def test_no_more_than_a_share_is_asked_for_at_once(group: Group) -> None:
    rule = senpai(group, "senpai:ratio=10%")
    rule.step(106)
    assert group.asked() == CURRENT // 100


def test_a_look_that_comes_late_is_of_a_longer_time(group: Group) -> None:
    rule = senpai(group)
    group.stall("memory", 6000)  # 0.1 % of 6 s, and half of that of 12 s
    assert rule.step(112) == 118
    assert group.asked() == pytest.approx(CURRENT * 0.0005 / 2, abs=1)


def test_writes_to_swap_are_regulated(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    written = [0]
    monkeypatch.setattr("damoos.agent.controllers.senpai.written_bytes", lambda: written[0])
    rule = senpai(group, "senpai:swap_writes=1M:interval=1s")
    for written_bytes, share in ((1 << 19, 0.5), ((1 << 19) + (4 << 20), 0.0), ((1 << 19) + (4 << 20), 1.0)):
        written[0] = written_bytes
        rule.step(rule.step(0))
        assert group.asked() == pytest.approx(CURRENT * 0.0005 * share, abs=1)


def test_what_the_kernel_cannot_reclaim_is_left(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = senpai(group)

    def full(self: Path, text: str) -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(Path, "write_text", full)
    assert rule.step(106) == 112


def test_a_kernel_that_lacks_a_file_is_told_so(group: Group) -> None:
    (group.path / "memory.pressure").rename(group.path / "elsewhere")
    with pytest.raises(UnsupportedError, match="senpai needs PSI, which is off"):
        senpai(group)
    (group.path / "memory.reclaim").unlink()
    with pytest.raises(UnsupportedError, match=r"senpai needs memory\.reclaim of the cgroup"):
        senpai(group)
    with pytest.raises(UnsupportedError, match="cgroup v2 is not"):
        controller(parse("senpai").spec()["controller"], None)
    with pytest.raises(UnsupportedError, match="unknown controller 'senpay'; did you mean 'senpai'"):
        controller({"name": "senpay"}, group.path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("senpay", "unknown policy 'senpay'; did you mean 'senpai'"),
        ("senpai:ration=1%", "'ration=1%' sets no parameter of senpai; did you mean 'ratio'"),
        ("senpai:ratio", "'ratio' sets no parameter"),
        ("senpai:ratio=x", "ratio: 'x' is no percentage such as 0.5%"),
        ("senpai:ratio=0.005", "ratio: '0.005' is no percentage such as 0.5%"),
        ("senpai:ratio=0%", "ratio: '0%' is not above 0"),
        ("senpai:ratio=120%", "ratio: '120%' is more than 100 percent"),
        ("senpai:interval=0s", "interval: '0s' is not above 0"),
        ("senpai:interval=2 parsecs", "interval: "),
        ("senpai:ratio=1%:ratio=2%", "ratio is given twice"),
    ],
)
def test_words_that_are_none(words: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(words)


def test_values_are_as_people_write_them() -> None:
    spec = parse("senpai:ratio=0.5%:interval=500ms:swap_writes=1M").spec()["controller"]
    assert spec == {
        "name": "senpai", "interval_s": 0.5, "ratio": 0.005, "pressure": 0.001, "io_pressure": 0.001, "most": 0.01,
        "swap_write_bytes_per_s": float(1 << 20),
    }  # fmt: skip
    for name in catalog.names():
        rule = catalog.rule(name)
        assert rule.description
        assert rule.source
        assert set(rule.tuned) <= set(rule.parameters)


def test_a_point_of_its_space_is_a_policy() -> None:
    """Written and read again, it is the same; the values of the source are a point, too."""
    tuned = SenpaiPolicy.space()
    assert [param.key for param in tuned] == ["ratio_ppm", "pressure_ppm"]
    policy = SenpaiPolicy.at(tuned, {"ratio_ppm": 5000, "pressure_ppm": 12_500})
    assert policy.text == "senpai:ratio=0.5%:pressure=1.25%"
    assert parse(policy.text) == policy
    assert policy.damo is None
    assert SenpaiPolicy.at(tuned, SenpaiPolicy.default_point(tuned)).spec() == parse("senpai").spec()
    assert SenpaiPolicy.space(["interval=1s:10s"])[0].key == "interval_us"
    for wrong, message in (
        ("ratios=1%:2%", "unknown tunable 'ratios' of senpai; did you mean 'ratio'"),
        ("ratio", "is written name=low:high"),
        ("ratio=1%", "'1%' is no range; one is written 0.05%:10%"),
        ("ratio=2%:1%", "ratio: the range 2%:1% is empty"),
    ):
        with pytest.raises(ConfigError, match=message):
            SenpaiPolicy.space([wrong])


@pytest.mark.parametrize("name", ["memory.min", "memory.low"])
def test_what_a_group_is_to_keep_is_never_asked_for(group: Group, name: str) -> None:
    """The kernel would give it: it protects a group from its parents' reclaim, not from a request to itself."""
    rule = senpai(group, "senpai:ratio=10%:most=10%:interval=1s")
    (group.path / name).write_text(f"{CURRENT - 1000}\n")
    rule.step(101)
    assert group.asked() == 1000
    (group.path / name).write_text("max\n")
    rule.step(102)
    assert group.asked() == 0
    (group.path / name).write_text("0\n")
    rule.step(103)
    assert group.asked() == CURRENT // 10
    assert [row[4] for row in rule.told()["decisions"]] == [1000, 0, CURRENT // 10]  # what was asked for, not the rule


def test_senpai_high_sets_no_limit_below_what_the_group_is_to_keep(group: Group) -> None:
    (group.path / "memory.high").write_text("max\n")
    (group.path / "memory.min").write_text(f"{CURRENT - (1 << 20)}\n")
    rule = controller(parse("senpai-high:min_size=16M:interval=1s:max_probe=10%").spec()["controller"], group.path)
    rule.begin(100.0, UndoLog(group.path / "undo.json"))
    for second in range(101, 110):
        rule.step(second)
    assert int((group.path / "memory.high").read_text()) == CURRENT - (1 << 20)


def test_senpai_of_tiers_goes_by_fast_memory(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """150 of 200 MiB are on node 0; what it demotes is charged as before, and not asked for again."""
    monkeypatch.setattr(senpai_tiers, "nodes_of", lambda which: [0])
    stat = group.path / "memory.numa_stat"
    stat.write_text(f"anon N0={100 << 20} N1={50 << 20}\nfile N0={50 << 20} N1=0\nunevictable N0=0 N1=0\n")
    rule = senpai(group, "senpai-tiers:ratio=1%")
    rule.step(106)
    assert group.asked() == (150 << 20) // 100
    stat.write_text(f"anon N0=0 N1={150 << 20}\nfile N0=0 N1={50 << 20}\n")
    rule.step(112)
    assert group.asked() == 0
    assert [row[1] for row in rule.told()["decisions"]] == [150 << 20, 0]


def test_senpai_of_tiers_needs_a_node_to_each_page(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(senpai_tiers, "nodes_of", lambda which: [0])
    with pytest.raises(UnsupportedError, match=r"senpai-tiers needs memory\.numa_stat of the cgroup"):
        senpai(group, "senpai-tiers")
    (group.path / "memory.numa_stat").write_text("anon N0=1\nfile N0=1\n")
    with pytest.raises(UnsupportedError, match="nothing tells"):
        senpai(group, "senpai-tiers")
