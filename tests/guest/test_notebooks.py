"""Every notebook runs from its first cell to its last, on real guests; what it asserts of them holds.

`make notebooks` runs them as they are, for their pages. Here they are made smaller: fewer trials and machines, and
workloads that wait between their accesses, which costs an emulated guest little.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from notebooks.render import execute, notebooks, read
from tests.conftest import short_workload, small_redis

# They access each page once where the page's own workload accesses random words of it.
PACED = {"rate = 10000": "rate = 512\npaced = true", ", 1, 8, ": ", 0, 4096, "}
ONE_MACHINE = {'["i3", "z1d"]': '["i3"]'}
SMALLER = {
    "1-tune": {**PACED, "trials=6,": "trials=3, candidates=1,", "repeats = 9": "repeats = 6"},
    "2-score": {"trials=4": "trials=2", "redis/idle:test": "./idle.toml"},
    "3-searcher": {"generate(60, seed=0)": "generate(30, seed=0)", "nr_seeds=5": "nr_seeds=2"},
    "4-recording": PACED,
    "5-paper": {
        **ONE_MACHINE,
        '["parsec3/raytrace"]': '["./short.toml"]',
        "hot, 16M\nsparse, 64M\ncold, 48M": "hot, 4M\nsparse, 16M\ncold, 12M",
        # What huge pages do is asked in test_configs.py, of the same pattern.
        '["rec", "thp", "ethp", "prcl"]': '["prcl"]',
        '    assert table.loc["thp", "bloat"] > 0.3  # huge pages make 64 MiB of 4\n': "",
        '    assert table.loc["ethp", "bloat"] < table.loc["thp", "bloat"]  # DAMON takes some of that back\n': "",
        "= 4, 2, 3": "= 2, 2, 3",
        # One of a hundred runs of 3 s is over before DAMON has told cold memory from hot.
        'assert arms["tuned"]["rss': 'assert study.result["verdict"] != "tuned" or arms["tuned"]["rss',
    },
    "6-fleet": {**PACED, **ONE_MACHINE, "len(sweep.studies) == 4": "len(sweep.studies) == 2"},
    "8-tiers": {
        "old, 160M": "old, 130M",
        "20000\n": "4500\n",
        '["tiers-1-1", "tiers-1-2", "tiers-1-4", "tiers-1-8"]': '["tiers-1-8"]',
        '    "tpp": "tpp:scan_period=200ms:watermarks=100:hot=500ms",\n': "",
        '    "damo\'s recipe": "damon-tiers",\n': "",
        'assert hits["temporal"] > hits["damo\'s recipe"] + 0.1\n': "",
    },
}


# It boots four guests at once: `make test-rollout` runs it (tests/rollout/notebook.py).
ELSEWHERE = {"7-rollout"}


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("guest_image")
@pytest.mark.parametrize("name", sorted({one.stem for one in notebooks()} - ELSEWHERE))
def test_a_notebook_runs(tmp_path: Path, name: str) -> None:
    short_workload(tmp_path, manual_min_age="500ms")
    small_redis(tmp_path)
    check(name, SMALLER[name], tmp_path)


def check(name: str, smaller: Mapping[str, str], folder: Path) -> None:
    """Run a notebook, changed so, in a folder, and look at what it shows."""
    found = read(next(one for one in notebooks() if one.stem == name))
    for before, after in smaller.items():
        assert any(before in cell.source for cell in found.cells)
        for cell in found.cells:
            cell.source = cell.source.replace(before, after)
    done = execute(found, folder)
    outputs = [output for cell in done.cells for output in cell.get("outputs", ())]
    shown = [output.data for output in outputs if "data" in output]
    assert any("image/png" in data for data in shown)
    # A page that runs no script shows one of these.
    assert all({"image/png", "text/html", "text/plain"} & set(data) for data in shown)
    assert not [output.text for output in outputs if output.get("name") == "stderr"]
