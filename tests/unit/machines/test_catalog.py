"""Every file of the catalogues of machines and workloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.errors import ConfigError
from damoos.machines import catalog as machines
from damoos.workloads import catalog as workloads


def test_every_file_in_the_catalogues_is_good() -> None:
    for name in machines.names():
        assert machines.machine(name).describe()
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
