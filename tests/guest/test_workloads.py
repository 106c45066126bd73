"""Real servers and a compiled suite, from the command line to the verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from damoos.common import paths
from damoos.dispatch.lease import Lease
from damoos.errors import UnsupportedError
from damoos.machines import catalog as machines
from damoos.machines.base import Conditions, Swap
from damoos.machines.catalog import KERNEL
from damoos.machines.guest import GuestMachine
from damoos.policies.base import NonePolicy
from damoos.workloads import catalog, install
from tests.conftest import damoos, shell, small_redis

TREES = Path(__file__).parents[1] / "trees"
# The smallest study: three trials, one candidate, two rounds.
SMALL = ("--trials", "3", "--repeats", "2", "--candidates", "1", "--format", "json")


def tuned(folder: Path, *words: str | Path) -> dict:
    done = damoos("tune", *words, *SMALL, cwd=folder, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(result: dict, reports: tuple[str, ...]) -> None:
    assert result["variant"] == "real"
    assert [trial["state"] for trial in result["trials"]] == ["complete"] * 3
    for run in [*result["trials"], *result["baselines"]]:
        assert all(run["metrics"][name] > 0 for name in reports)
    assert set(result["validation"]) >= {"baseline", "tuned"}


REPORTS = ("ops_per_s", "p50_ms", "p95_ms", "p99_ms")


def test_a_server_is_tuned(guest_image: None, tmp_path: Path) -> None:
    """Memory is saved within a limit on the slow requests."""
    limits = ("--score", "sla", "--minimize", "rss_avg_bytes", "--limit", "p99_ms<=100", "--tune", "min_age=200ms:2s")
    result = tuned(tmp_path, "--workload", small_redis(tmp_path), *limits)
    check(result, REPORTS)
    arms = result["validation"]
    assert arms["tuned"]["rss_avg_bytes"] < 0.9 * arms["baseline"]["rss_avg_bytes"]
    assert set(arms["tuned"]["reports"]) == set(REPORTS)


@pytest.fixture
def own_trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache with the images and kernels of the real one, and suites of the test's own."""
    real, ours = paths.cache(), tmp_path / "cache"
    ours.mkdir()
    for name in ("agent", "apt", "guest", "kernels"):
        (ours / name).symlink_to(real / name)
    monkeypatch.setenv("DAMOOS_CACHE", str(ours))


def test_a_suite_is_built_laid_into_a_guest_and_tuned(
    guest_image: None, own_trees: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree in the form of Splash-3's, under the names of SPLASH-2x; what does not build leaves the rest usable.

    This study runs on Debian's kernel, the default for users.
    """
    monkeypatch.setenv(KERNEL, "debian")
    done = damoos("workloads", "install", "splash2x", "--from", TREES / "splash3", "--format", "json")
    assert done.returncode == 0, done.stderr
    about = json.loads(done.stdout)
    assert (about["suite"], about["built"]) == ("splash3", ["lu_cb"])
    assert "no_such_thing" in about["failed"]["radix"]
    assert about["failed"]["raytrace"] == "inputs is missing"
    assert (about["works"], about["fails"]) == (["splash2x/lu_cb:test"], {})
    result = tuned(tmp_path, "--workload", "splash2x/lu_cb:test", "--score", "sla", "--limit", "slowdown<=1")
    check(result, ("roi_s",))
    assert result["machine"]["kernel_name"] == "debian"
    assert result["provenance"]["overlays"] == {"splash3": Path(about["path"]).name}
    # The part that did not build is what it was before: a model.
    refused = damoos("tune", "--workload", "splash2x/radix:test", "--require-real", *SMALL, cwd=tmp_path)
    assert refused.returncode == 3
    assert "damoos workloads install splash3" in refused.stderr


def test_inputs_of_a_suite_are_made_in_the_guest(guest_image: None, own_trees: None) -> None:
    """A tree in the form of PARSEC's, and a program that reads damoos's own input; one that fits is chosen."""
    done = damoos("workloads", "install", "parsec3", "--from", TREES / "parsec3", "--format", "json")
    assert done.returncode == 0, done.stderr
    about = json.loads(done.stdout)
    assert about["built"] == ["hooks", "parsec.blackscholes"]
    assert (about["works"], about["fails"]) == (["parsec3/blackscholes:test"], {})
    machine = machines.machine("guest")
    machine.provide((), ("parsec3",))
    with Lease(machine) as lease:
        workload = catalog.workload("parsec3/blackscholes", lease.place)
        assert (workload.name, workload.variant) == ("parsec3/blackscholes:large", "real")
        small = catalog.workload("parsec3/blackscholes:small", lease.place)
        measurement, _ = lease.run(small, NonePolicy(), 120)
        assert 0 < measurement.metric("roi_s") <= measurement.metric("runtime_s")
        with pytest.raises(UnsupportedError, match=r"blackscholes:native needs .*input_native\.tar"):
            catalog.workload("parsec3/blackscholes:native", lease.place)


def test_a_model_is_held_against_what_has_been_published(guest_image: None) -> None:
    """dedup is the shortest program, and slowed down by page faults of which the model has a twentieth."""
    done = damoos("workloads", "check-models", "--workloads", "parsec3/dedup", "--format", "json", timeout=900)
    rows = {row["what"]: row for row in json.loads(done.stdout)["parsec3/dedup"]}
    # What a scheme saves in one run is DAMON's luck, too: it is shown, and decides how the command ends.
    assert done.returncode == (0 if all(row["follows"] for row in rows.values()) else 1), done.stderr
    assert rows["runtime, s"]["published"] == 11.914
    assert rows["runtime, s"]["follows"]
    assert rows["RSS, MiB"]["follows"]
    assert rows["prcl RSS saving"]["model"] < 0.5
    assert rows["prcl slowdown"]["model"] > 0.02


def test_distributions_that_are_taken_as_they_are(guest_image: None, own_trees: None) -> None:
    """Cassandra under YCSB: programs in the form of the real ones, started, asked and read as those would be."""
    for name in ("cassandra", "ycsb"):  # the command would try them with a real Java, which is a minute's download
        install.install(name, str(TREES / name))
    machine = machines.machine("guest")
    machine.provide((), ("cassandra", "ycsb"))  # no Java: these are small programs
    with Lease(machine) as lease:
        workload = catalog.workload("cassandra/ycsb", lease.place)
        measurement, _ = lease.run(workload, NonePolicy(), 120)
    assert measurement.metric("ops_per_s") > 0
    assert measurement.metric("p50_ms") <= measurement.metric("p99_ms")


def test_a_disk_is_not_written_over(guest_image: None) -> None:
    """A partition that its owner has not made for swap is refused, whatever the machine file says."""
    session = GuestMachine("test", "", 1, 1 << 30).open()
    try:
        swap = Swap(kind="disk", device=shell(session, "df --output=source / | tail -n 1"))
        with pytest.raises(UnsupportedError, match="was not made for swap"):
            session.agent.call("prepare", **Conditions(swap=swap).wanted())
    finally:
        session.close()


def test_isolation_by_boot_gives_each_run_a_new_kernel(guest_image: None) -> None:
    machine = GuestMachine("test", "", 1, 1 << 30, Conditions(isolation="boot"))
    workload = catalog.command("true", catalog.Tune().tuning())
    with Lease(machine) as lease:
        boots = [lease.run(workload, NonePolicy(), 60)[0].provenance["boot_id"] for _ in range(2)]
    assert boots[0] != boots[1]
