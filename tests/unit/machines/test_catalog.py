"""Every file of the catalogues of machines and workloads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from damoos.errors import ConfigError
from damoos.machines import catalog as machines
from damoos.workloads import catalog as workloads


def test_every_file_in_the_catalogues_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    # A kernel that is not built yet is no fault of a file.
    monkeypatch.setattr("damoos.machines.guest.check", lambda kernel: None)
    for name in machines.names():
        assert machines.machine(name).describe() == machines.description(name) != ""
    for name in workloads.names():
        assert workloads.workload(name, workloads.Place(lambda program: "/usr/bin/" + program)).tuning.high_us > 0


def every_toml() -> list[Path]:
    here = Path(__file__).parents[3]
    return sorted([*here.glob("machines/*.toml"), *here.glob("workloads/*/*.toml")])


@pytest.mark.parametrize("path", every_toml(), ids=lambda path: path.stem)
def test_an_unknown_key_in_any_good_file_is_refused(path: Path, tmp_path: Path) -> None:
    bad = tmp_path / path.name
    for sibling in path.parent.iterdir():
        if sibling.is_file() and sibling.suffix != ".toml":
            (tmp_path / sibling.name).write_bytes(sibling.read_bytes())
    bad.write_text(f"surprise = 1\n{path.read_text()}")
    load = machines.machine if path.parent.name == "machines" else workloads.find
    with pytest.raises(ConfigError, match="unknown key 'surprise'"):
        load(str(bad))


MACHINE = 'description = "d"\n[guest]\nmemory = "1G"\n'


def test_a_latency_is_what_the_agent_is_told_and_idle_what_the_kernel_is_told(tmp_path: Path) -> None:
    file = tmp_path / "slow.toml"
    file.write_text(f'{MACHINE}idle = "poll"\n[swap]\nkind = "null_blk"\nsize = "64M"\nlatency = "9.3ms"\n')
    machine = machines.machine(str(file))
    assert machine.conditions.wanted()["swap"]["latency_us"] == 9300
    assert "damoos.idle=poll" in machine._asked_clock.cmdline([])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ('mips = 0\nidle = "skip"', "'mips' is from 1 to 20000, and is 0"),
        ("mips = 0", "with idle = 'wait' 'mips' is one of 1000, 500, 250, 125, and is 0"),
        ("mips = 4000", "with idle = 'wait' 'mips' is one of 1000, 500, 250, 125, and is 4000"),
        ('mips = 4000\nidle = "poll"', "with idle = 'poll' 'mips' is one of 1000"),
        ('mips = "fast"', "'guest.mips': should be a number, and is 'fast'"),
        ('idle = "never"', "'guest.idle'"),
        ('idle = "halt"', "'guest.idle'"),
        ('accel = "kvm"\nidle = "skip"', "'mips' and 'idle' are for emulated guests, and accel is 'kvm'"),
    ],
)
def test_a_clock_that_there_is_not_is_refused(words: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "fast.toml"
    file.write_text(f"{MACHINE}{words}\n")
    with pytest.raises(ConfigError, match=re.escape(message)):
        machines.machine(str(file))


@pytest.mark.parametrize(
    ("swap", "message"),
    [
        ('kind = "null_blk"\nsize = "64M"', "a 'latency' belongs to swap of kind 'null_blk'"),
        ('kind = "zram"\nsize = "64M"\nlatency = "1ms"', "a 'latency' belongs to swap of kind 'null_blk'"),
        ('kind = "null_blk"\nlatency = "1ms"', "swap of kind 'null_blk' needs its 'size'"),
        ('kind = "null_blk"\nsize = "64M"\nlatency = "0us"', "is not above 0"),
        ('kind = "null_blk"\nsize = "64M"\nlatency = "9 parsecs"', "unknown time unit 'parsecs'"),
    ],
)
def test_a_latency_of_what_has_none_is_refused(swap: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(f"{MACHINE}[swap]\n{swap}\n")
    with pytest.raises(ConfigError, match=message):
        machines.machine(str(file))
