"""Money, by a file of prices."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from damoos.errors import ConfigError, MeasurementError
from damoos.model.trial import Measurement
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
    file.write_text("gib_hour = 0\ncore_hour = 0\n[swap_device]\nprice = 100\nrated_tbw = 0\n")
    with pytest.raises(ConfigError, match="rated_tbw"):
        scorer("cost", {"prices": str(file)})
    for number in ("nan", "inf"):
        file.write_text(f"gib_hour = {number}\ncore_hour = 0.03\n")
        with pytest.raises(ConfigError, match=r"key 'gib_hour': .*finite number"):
            scorer("cost", {"prices": str(file)})
    for number, why in (
        ("true", "should be a number"),
        ("-1", "greater than or equal to 0"),
        ("1e308", "less than or"),
    ):
        file.write_text(f"gib_hour = 0.005\ncore_hour = {number}\n")
        with pytest.raises(ConfigError, match=f"key 'core_hour': .*{why}"):
            scorer("cost", {"prices": str(file)})
    file.write_text("gib_hours = 0.005\ncore_hour = 0.03\n")
    with pytest.raises(ConfigError, match="unknown key 'gib_hours'; did you mean 'gib_hour'"):
        scorer("cost", {"prices": str(file)})


def test_wear_has_a_price_where_the_file_has_a_device(tmp_path: Path) -> None:
    """1 MB/s for an hour is 3.6 GB, of 150 TB that cost 100."""
    file = tmp_path / "prices.toml"
    plain = "gib_hour = 0\ncore_hour = 0\n"
    file.write_text(f"{plain}[swap_device]\nprice = 100\nrated_tbw = 150\n")
    made = scorer("cost", {"prices": str(file)})
    assert "swap_written_bytes_per_s" in made.needs
    quiet = run(swap_written_bytes_per_s=0.5e6)
    score = made.score(run(swap_written_bytes_per_s=1.5e6), quiet, [])
    assert score.value == score.parts["wear"] == pytest.approx(-3.6e9 / 150e12 * 100)
    assert made.score(quiet, quiet, []).value == 0
    with pytest.raises(MeasurementError, match="swap_written_bytes_per_s"):
        made.score(run(), Measurement({**BASELINE.metrics, "swap_written_bytes_per_s": math.nan}), [])
    file.write_text(plain)
    assert "swap_written_bytes_per_s" not in scorer("cost", {"prices": str(file)}).needs
