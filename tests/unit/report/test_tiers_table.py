"""What an evaluation says of tiers of memory."""

from __future__ import annotations

from damoos.report.comparison.tiers import COLUMNS, cells


def test_a_row_for_each_configuration_whose_time_is_modelled() -> None:
    means = {"modelled_s": 3.0, "fast_hits": 0.5, "pages_promoted": 256, "modelled_speedup": 1.5}
    told = {name: {"mean": mean, "ci95": [mean, mean], "n": 3} for name, mean in means.items()}
    results = [{"workload": "w", "configs": {"tpp": {"quantities": told}, "failed": {"quantities": {}}}}]
    (row,) = cells(results, lambda result: str(result["workload"]))
    assert len(row) == 2 + len(COLUMNS)
    assert row[:6] == ("w", "tpp", "50.0%", "1 MiB", "-", "-")
    assert row[6] == "3.00 s"
    assert row[7].startswith("1.500")
    assert row[8:] == ("-", "-")
