"""A league on a real kernel: two policies tuned with the same budget, all of them validated in the same rounds."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import damoos, short_workload

POLICIES = "damos,senpai"


def test_a_league_of_two_policies(tmp_path: Path, guest_image: None) -> None:
    # What damos pages out at such an age it has paged out long before the end: a policy that gains nothing in its two
    # trials is not validated.
    workload = short_workload(tmp_path, manual_min_age="300ms", work_ms=5000)
    # So short a run cannot keep the 5 % that are usual: a limit that it keeps.
    words = ["--workloads", workload, "--policies", POLICIES, "--limit", "slowdown<=1", "--trials", "2"]
    results = ["--results", tmp_path / "results"]
    done = damoos("league", *words, "--repeats", "2", *results, "--format", "json", timeout=900)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    (machine,), (study,) = said["machines"], said["studies"]
    assert {name: about["trials"] for name, about in study["searched"].items()} == dict.fromkeys(POLICIES.split(","), 2)
    assert not any(row["cannot"] for row in machine["policies"].values())
    arms = {(arm["policy"], arm["defaults"]): arm for arm in study["limits"]["0.1"]["arms"]}
    assert ("damos", True) in arms  # the manual scheme
    assert all(len(arm["slowdown"]["values"]) == 2 for arm in arms.values())
    assert (tmp_path / "results" / said["sweep"] / "league.csv").is_file()

    page = damoos("report", "html", said["sweep"], *results)
    assert page.returncode == 0, page.stderr
    study_page = damoos("report", "html", study["study"], *results)
    assert study_page.returncode == 0, study_page.stderr
    again = damoos("league", *words, "--repeats", "2", *results, "--dry-run")
    assert again.returncode == 0, again.stderr
