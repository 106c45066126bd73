"""The command line as people meet it: help, lists, and wrong words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from damoos.damon.interface import used_by_others
from tests.conftest import damoos, the_only_agent

HOST_DAMON = Path("/sys/kernel/mm/damon/admin")
RAYTRACE = ["tune", "--workload", "parsec3/raytrace"]


def test_help_is_there() -> None:
    """All else of it is in tests/unit/cli/test_help.py."""
    assert "\nTune and prove:\n  tune " in damoos("--help").stdout
    assert "\nExamples:\n  damoos evaluate " in damoos("evaluate", "--help").stdout


def test_the_race_of_searchers(tmp_path: Path) -> None:
    score = [None, 1, 2, *(9 - n / 4 for n in range(18))]
    curve = {"workload": "made", "unit": "s", "values": list(range(21)), "score": score}
    (tmp_path / "made.json").write_text(json.dumps(curve))
    words = ["bench", "searchers", "--curves", tmp_path, "--trials", "5,8", "--seeds", "2", "--searchers", "auto,grid"]
    rows = json.loads(damoos(*words, "--format", "json").stdout)
    assert [(row["searcher"], row["trials"]) for row in rows] == [("auto", 5), ("auto", 8), ("grid", 5), ("grid", 8)]
    for row in rows:
        assert set(row) == {"searcher", "trials", "regret", "regret_ci95", "infeasible_rate", "ask_ms"}
        assert 0 <= row["regret"] <= 1
        assert row["ask_ms"] > 0
    table = damoos(*words).stdout.splitlines()
    assert table[0] == f"1 curve of {tmp_path}, 2 seeds"
    assert len(table) == 6


def test_lists(tmp_path: Path) -> None:
    names = {row["name"] for row in json.loads(damoos("workloads", "--format", "json").stdout)}
    assert names >= {"parsec3/raytrace"} | {
        f"synthetic/{n}" for n in ("hot-cold", "idle", "stairs", "zigzag", "phases", "thrash")
    }
    machines = {row["name"]: row["description"] for row in json.loads(damoos("machines", "--format", "json").stdout)}
    metals = {"i3.metal", "m5d.metal", "z1d.metal"}
    swaps = {f"guest-{swap}" for swap in ("zram", "zram-newest", "zswap", "file", "ssd-fast", "ssd-slow", "counted")}
    tiers = {f"tiers-1-{ratio}" for ratio in (1, 2, 4, 8)}
    assert set(machines) == {"guest", "guest-arm64", "large", "i3", "m5d", "z1d", "local"} | swaps | metals | tiers
    assert "scaled 1/16" in machines["i3"]
    assert "18 vCPUs, 32 GiB" in machines["i3"]
    assert json.loads(damoos("studies", "--results", tmp_path, "--format", "json").stdout) == []


def test_a_machine_is_explained_with_what_follows_from_its_file(tmp_path: Path) -> None:
    about = json.loads(damoos("machines", "show", "i3", "--format", "json").stdout)
    assert (about["vcpus"], about["memory_bytes"], about["kernel"]) == (1, 2 << 30, "debian")
    assert about["swap"] == {"kind": "zram", "sz_bytes": 256 << 20, "algorithm": "lz4", "device": None}
    assert about["conditions"]["thp"] == "never"
    file = tmp_path / "mine.toml"
    file.write_text('description = "x"\ncpus = "0-1"\n[ssh]\nhost = "there"\njump = "me@gate:2222"\n')
    about = json.loads(damoos("machines", "show", file, "--format", "json").stdout)
    assert about["kind"] == "host by SSH"
    assert (about["endpoint"]["host"], about["endpoint"]["port"], about["endpoint"]["user"]) == ("there", 22, "root")
    text = damoos("machines", "show", file).stdout
    assert "jump me@gate:2222" in text
    assert "cpus 0-1" in text
    assert "this machine" in damoos("machines", "show", "local").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tun"], "did you mean 'tune'?"),
        (["tune", "--workloads", "x"], "No such option"),
        (["tune", "--workload", "parsec3/raytrac"], "'parsec3/raytrac'; did you mean 'parsec3/raytrace'?"),
        ([*RAYTRACE, "--machine", "gest"], "unknown machine 'gest'; did you mean 'guest'?"),
        ([*RAYTRACE, "--score", "doas"], "unknown scorer 'doas'; did you mean 'daos'?"),
        ([*RAYTRACE, "--searcher", "rendom"], "did you mean 'random'?"),
        ([*RAYTRACE, "--run-limit", "5 parsecs"], "unknown time unit 'parsecs'"),
        ([*RAYTRACE, "--tune", "min_agee=0s:1s"], "did you mean 'min_age'?"),
        (["tune"], "give either a workload, a command or a pid"),
        (["tune", "--command", "'unclosed"], "No closing quotation"),
        ([*RAYTRACE, "--format", "xml"], "unknown format 'xml'"),
        (["doctor", "gest"], "unknown machine 'gest'; did you mean 'guest'?"),
        (["doctor", "guest", "--format", "jsn"], "unknown format 'jsn'; did you mean 'json'?"),
        (["machines", "show", "i33"], "unknown machine 'i33'; did you mean 'i3'?"),
        (["machines", "sow"], "no command 'damoos machines sow'; did you mean 'show'?"),
        (["show", "nothing"], "unknown study 'nothing'; there are no studies yet"),
        (["resume", "nothing"], "unknown study 'nothing'"),
        (["apply", "nothing"], "unknown study 'nothing'"),
        (["validate", "nothing", "--limit", "slowdown<=0.02"], "unknown study 'nothing'"),
        (["validate", "nothing"], "Missing option '--limit'"),
        (["stop"], "nothing is in service here"),
        ([*RAYTRACE, "--score", "sla", "--limit", "slowdown"], "write NAME<=NUMBER"),
        ([*RAYTRACE, "--score", "sla", "--maximize", "ops", "--minimize", "ops"], "either --maximize or --minimize"),
        ([*RAYTRACE, "--limit", "slowdown<=0.1"], "score 'daos' has no option 'limits'; it takes none (cost, sla"),
        ([*RAYTRACE, "--score", "cost", "--prices", "none.toml"], "--prices none.toml: there is no such file"),
        ([*RAYTRACE, "--score", "none.py:score"], "there is no such file"),
        ([*RAYTRACE, "--searcher", "optuna:tpee"], "did you mean 'tpe'?"),
        (["bench", "searchers", "--curves", "nowhere"], "no curves"),
        (["bench", "searchers", "--searchers", "auto,dao"], "unknown searcher 'dao'; did you mean 'daos'?"),
        (["bench", "searchers", "--trials", "5,many"], "'many' is not a number"),
        (["bench", "searchers", "--noise", "0.1:0.01"], "noise is LOW:HIGH"),
        (["bench", "searchers", "--generate", "0"], "--generate must be 1 or more"),
        (["bench", "searchers", "--surfaces", "0"], "--surfaces must be 1 or more"),
        (["bench", "searchers", "--surfaces", "2", "--params", "7"], "made surfaces have 1 to 6 parameters"),
        (["bench", "searchers", "--surface", "none.py:run"], "there is no file none.py; write FILE.py:FUNCTION"),
        (["bench", "searchers", "--surface", "none"], "none: no such file, and no recording of this name"),
        ([*RAYTRACE, "--runs", "10"], "--runs 10: no room for a validation; give 11 or more"),
        (["bench", "aa", "--command", "true", "--rounds", "5"], "--rounds 5 are too few for --repeats 6; give 6"),
        (["bench", "aa", "--command", "true", "--made", "2"], "--made needs no workload: it simulates"),
        (["bench", "aa", "--made", "999999999999999999999"], "--made 999999999999999999999: give 1 to 100000"),
    ],
)  # fmt: skip
def test_wrong_words_get_one_line_and_exit_code_2(words: list[str], message: str, tmp_path: Path) -> None:
    if words[0] in ("tune", "show", "resume", "validate", "apply", "stop"):
        words = [*words, "--results", str(tmp_path)]
    done = damoos(*words)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert message in done.stderr


def test_a_wrong_scheme_is_shown_with_a_mark(tmp_path: Path) -> None:
    done = damoos(*RAYTRACE, "--scheme", "4K max min min MIN_AGE max pagout", "--results", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    line, *shown = done.stderr.splitlines()
    assert line == "damoos: line 1, column 28: unknown action 'pagout'; did you mean 'pageout'?"
    assert shown == ["    4K max min min MIN_AGE max pagout", "                               ^"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("descripton = 'x'\n[guest]\nmemory = '1G'\n", "unknown key 'descripton'; did you mean 'description'?"),
        ("description = 'x'\n[guest]\nmemori = '1G'\n", "unknown key 'guest.memori'; did you mean 'memory'?"),
        (
            "description = 'x'\n[swap]\nsiz = '1G'\n[guest]\nmemory = '1G'\n",
            "key 'swap.siz'; did you mean 'size'?",
        ),
        ("description = 'x'\n", "exactly one of [guest], [paper_guest] and [ssh]"),
        ("description = 'x'\n[guest]\nvcpus = 1\n", "key 'guest.memory' is missing"),
        ("description = 'x'\n[guest]\nvcpus = 'many'\nmemory = '1G'\n", "key 'guest.vcpus'"),
        ("description = 'x'\n[guest]\nmemory = '1Q'\n", "unknown size unit 'Q'"),
        ("this is no toml", "not valid TOML"),
        ("description = 'x'\n[ssh]\nhost = 'h'\njum = 'g'\n", "unknown key 'ssh.jum'; did you mean 'jump'?"),
        ("description = 'x'\n[ssh]\nhost = 'h'\njump = 'me@gate:ssh'\n", "'me@gate:ssh' is not a jump host"),
    ],
)
def test_wrong_machine_files(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    done = damoos("tune", "--command", "true", "--machine", file, "--results", tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.skipif(
    HOST_DAMON.exists() and not used_by_others(), reason="this host's DAMON is free, and tests must not use it"
)
def test_the_hosts_own_damon_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Busy by somebody else, or not there at all: either way exit code 3 and nothing touched."""
    before = used_by_others()
    with the_only_agent():
        done = damoos("tune", "--command", "true", "--machine", "local", "--results", tmp_path)
    assert done.returncode == 3
    assert ("in use on this machine by another program" in done.stderr) or ("has no DAMON" in done.stderr)
    assert used_by_others() == before


def test_a_scheme_that_broke_the_limits_is_not_put_into_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from damoos import api
    from damoos.machines import catalog
    from damoos.testing.fake import FakeMachine

    # Every trial is feasible in the search; in the validation, which comes after run 6, all schemes thrash.
    machine = FakeMachine(curve=lambda age_s: (0.05 if machine.nr_runs <= 6 else 0.5, 0.3))
    monkeypatch.setattr(catalog, "machine", lambda name, kernel=None: machine)
    study = api.tune(command="true", machine="guest", trials=3, results=tmp_path)
    assert study.result["validation"]["tuned"]["feasible"] is False
    for arm in ("tuned", "manual"):
        done = damoos("apply", study.name, "--arm", arm, "--results", tmp_path)
        assert done.returncode == 4
        assert f"the {arm} scheme broke the limits of the score" in done.stderr
    assert "did you mean 'manual'" in damoos("apply", study.name, "--arm", "manul", "--results", tmp_path).stderr


@pytest.mark.parametrize("words", [["--debug", "show", "nothing"], ["show", "nothing", "--debug"]])
def test_debug_shows_the_traceback(tmp_path: Path, words: list[str]) -> None:
    done = damoos(*words, "--results", tmp_path)
    assert done.returncode != 0
    assert "Traceback" in done.stderr
