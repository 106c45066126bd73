"""Money, by a file of prices."""

from __future__ import annotations

from pathlib import Path

import pytest

from damoos.errors import ConfigError
from damoos.scorers import scorer

from .conftest import BASELINE, GIB, run


def test_money(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('currency = "EUR"\ngib_hour = 0.005\ncore_hour = 0.03\n')
    made = scorer("cost", {"prices": str(file), "limits": ["slowdown<=0.5"]})
    assert made.unit == "EUR per hour of the workload"
    # 2 GiB less; 2 busy cores 10 % slower, and kdamond on a twentieth of one.
    measured = run(runtime_s=110.0, net_avg_bytes=2 * GIB, kdamond_cpu_s=5.5)
    assert made.score(measured, BASELINE, []).value == pytest.approx(2 * 0.005 - (0.2 + 0.05) * 0.03)
    file.write_text("gib_hours = 0.005\ncore_hour = 0.03\n")
    with pytest.raises(ConfigError, match="unknown key 'gib_hours'; did you mean 'gib_hour'"):
        scorer("cost", {"prices": str(file)})
