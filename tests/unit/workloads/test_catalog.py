"""Workload files: inputs, placeholders, what they need of a machine; machine files beside them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from damoos.bench.suite import try_out
from damoos.common import paths
from damoos.errors import ConfigError, UnsupportedError
from damoos.machines.base import Conditions
from damoos.machines.catalog import machine
from damoos.study.config import StudyConfig
from damoos.workloads import catalog, install
from damoos.workloads.base import Tuning, tool

TREES = Path(__file__).parents[2] / "trees"


EVERYTHING = catalog.Place(lambda program: program)


def copy(path: Path) -> str:
    return f"there/{path.name}"


def test_the_papers_workloads_are_all_there() -> None:
    """25, each with the real command by two ways, published numbers and a model; SPLASH's from Splash-3, too."""
    names = [name for name in catalog.names() if name.startswith(("parsec3/", "splash2x/"))]
    assert len(names) == 13 + 12
    for name in names:
        file = catalog.find(name)[1]
        assert file.model
        assert file.published
        assert len(file.real) == (3 if name.startswith("splash2x/") else 2)
        known = install.SUITES["parsec3"].parts
        assert ("parsec." if name.startswith("parsec3/") else "splash2x.") + name.split("/")[1] in known
        if name.startswith("splash2x/"):
            part = install.SUITES["splash3"].parts[name.split("/")[1]]
            assert file.real[-1].needs.endswith(f"/{part.keeps[0]}")
            assert all(one.has_size for one in file.real[-1].inputs.values())


def test_every_workload_has_its_row_in_the_docs() -> None:
    """Measured: variant, what it reports, size and time; or it says why not."""
    text = (Path(__file__).parents[3] / "docs/workloads.md").read_text()
    table = text[text.index("measured: begin") : text.index("real: end")]
    assert [name for name in catalog.names() if f"`{name}`" not in table and f"`{name}:" not in table] == []
    models = text[text.index("models: begin") : text.index("models: end")]
    assert [name for name in catalog.names() if catalog.find(name)[1].model and f"`{name}`" not in models] == []


def test_an_input_is_chosen() -> None:
    def which(program: str) -> str | None:
        return program if "splash3" in program else None

    there = catalog.Place(which)
    native = catalog.workload("splash2x/fft:native", there)
    assert native.argv(copy, 4) == ["/opt/damoos/splash3/fft/FFT", "-p4", "-m28"]
    small = catalog.workload("splash2x/fft:test", there)
    assert small.argv(copy, 1) == ["/opt/damoos/splash3/fft/FFT", "-p1", "-m16"]
    assert small.name == "splash2x/fft:test"
    assert native.identity != small.identity
    with pytest.raises(ConfigError, match="no input 'nativ'; did you mean 'native'"):
        catalog.find("splash2x/fft:nativ")
    with pytest.raises(ConfigError, match="no input 'test'; it has only one"):
        catalog.find("synthetic/idle:test")
    # Splash-3 has no simdev: only PARSEC's own packaging could run that.
    with pytest.raises(UnsupportedError, match=r"\(damoos workloads install parsec3 --from DIR-or-git-URL\), and"):
        catalog.workload("splash2x/fft:simdev", there, require_real=True)


SIZED = """
description = "sized"
[tune]
min_age = "0s:60s"
unit_work = "60s"
[real]
command = ["p", "{input}"]
needs = "p"
[real.inputs]
a = { words = ["1"], memory = "100M", work = "4s" }
b = { words = ["2"], memory = "700M", work = "40s" }
c = { words = ["3"], memory = "6G", work = "20m", needs = "/there/c" }
"""


@pytest.mark.parametrize(
    ("mem_bytes", "emulated", "files", "chosen"),
    [
        (1 << 30, True, (), "b"),
        (1 << 30, True, ("/there/c",), "b"),
        (512 << 20, True, (), "a"),
        (16 << 30, True, ("/there/c",), "b"),  # 20 minutes are too long
        (16 << 30, False, (), "b"),
        (0, False, (), "b"),
    ],
)
def test_the_input_fits_the_machine(
    tmp_path: Path, mem_bytes: int, emulated: bool, files: tuple[str, ...], chosen: str
) -> None:
    (tmp_path / "sized.toml").write_text(SIZED)
    place = catalog.Place(lambda name: name if name == "p" or name in files else None, mem_bytes, emulated)
    workload = catalog.workload(str(tmp_path / "sized.toml"), place)
    assert workload.name == f"sized:{chosen}"
    assert f"input {chosen} was chosen" in workload.note
    shorter = 60 / ({"a": 4, "b": 40}[chosen] / (1 if emulated else catalog.FASTER))
    assert workload.tuning.high_us == 60_000_000 // max(1, round(shorter))


def test_an_input_that_cannot_run_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    file = tmp_path / "sized.toml"
    file.write_text(SIZED)
    small = catalog.Place(lambda name: name if name == "p" else None, 1 << 30)
    with pytest.raises(UnsupportedError, match="sized:c needs /there/c, which the machine does not have"):
        catalog.workload(f"{file}:c", small)
    with pytest.raises(UnsupportedError, match=r":c takes 6G, and the machine has 1 GiB; .* leave ':c' out"):
        catalog.workload(f"{file}:c", catalog.Place(lambda name: name, 1 << 30))
    with pytest.raises(UnsupportedError, match="its smallest input, a, takes 100M, and the machine has 64 MiB"):
        catalog.workload(str(file), catalog.Place(lambda name: name, 64 << 20))
    file.write_text(SIZED.replace(', work = "4s"', ""))
    with pytest.raises(ConfigError, match="must have its 'memory' and 'work'"):
        catalog.find(str(file))


def test_what_a_machine_should_have() -> None:
    assert catalog.wanted("redis/cache").packages == ("redis-server", "redis-tools")
    assert catalog.wanted("splash2x/fft").trees == ("parsec3", "splash3")
    assert catalog.wanted("cassandra/ycsb").trees == ("cassandra", "ycsb")
    config = StudyConfig(workload="redis/cache", command=None, machine="guest", nr_samples=2)
    assert config.machine_for()._packages == {"redis-server", "redis-tools"}


def test_what_is_missing_is_told_with_how_to_get_it() -> None:
    with pytest.raises(UnsupportedError, match=r"is not installed .* \(apt-get install redis-server redis-tools\)"):
        catalog.workload("redis/cache", catalog.NO_PROGRAMS)


def test_placeholders_are_filled_in(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("print()")
    file = tmp_path / "mine.toml"
    file.write_text(
        'description = "mine"\n[real]\nneeds = "python3"\n'
        'command = ["python3", "{file:job.py}", "-j{vcpus}", "{input}"]\n'
        'inputs = { a = ["1", "2"], b = [] }\ninput = "a"\nstdin = "in-{vcpus}"\nsetup = [["cp", "{kvload}", "."]]\n'
        '[real.load]\ncommand = ["ask", "{input}"]\nwarm_up = [["warm"]]\n'
    )
    spec = catalog.workload(str(file), EVERYTHING).spec(copy, 3)
    assert spec["argv"] == ["python3", "there/job.py", "-j3", "1", "2"]
    assert spec["stdin"] == "in-3"
    assert spec["setup"] == [["cp", f"there/{tool('kvload').name}", "."]]
    assert spec["load"] == {"argv": ["ask", "1", "2"], "ready": [], "warm_up": [["warm"]], "address": None}
    assert (spec["user"], spec["network"]) == (None, "host")
    assert spec["brought"] == ["there/job.py", f"there/{tool('kvload').name}"]
    before = catalog.workload(str(file), EVERYTHING).identity
    (tmp_path / "job.py").write_text("print(1)")
    assert catalog.workload(str(file), EVERYTHING).identity != before
    (tmp_path / "job.py").unlink()
    with pytest.raises(ConfigError, match=r"job\.py}': there is no such file beside it"):
        catalog.workload(str(file), EVERYTHING).spec(copy)


REAL = '[real]\ncommand = ["a"]\nneeds = "a"\n'
SECOND = REAL.replace("[real]", "[[real]]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'{REAL}[real.metrics]\nx_s = {{ beter = "lower" }}\n', "'real.metrics.x_s.beter'; did you mean 'better'"),
        (f'{REAL}[real.metrics]\nx_s = {{ better = "lower" }}\n', "exactly one of"),
        ('[real]\ncommand = []\nneeds = "a"\n', "real.command"),
        (f'{REAL}inputs = ["a"]\n', "'input' must name one"),
        (f'{REAL}[real.load]\nready = ["a"]\n', "'real.load.command' is missing"),
        (f'{REAL}[real.load]\ncommand = ["a"]\naddress = "127.0.0.1"\n[real.load.more]', "'real.load.more'"),
        (f'{REAL}[real.inputs]\nsmall = ["a", 5]\n', "key 'real.inputs.small.1': should be a valid string, and is 5"),
        (f"{REAL}inputs = [[], 5]\n", "key 'real.inputs': as a list it has words only"),
        (f"{SECOND}{SECOND}env = 1\n", "key 'real.1.env'"),
        (f"{SECOND}env = 1\n", "key 'real.env'"),
        ("real = 1", "key 'real': should be a valid tuple, and is 1"),
        ("", r"either \[pattern\] or \[real\]"),
    ],
)
def test_wrong_files_are_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(f'description = "bad"\n{text}')
    with pytest.raises(ConfigError, match=message) as told:
        catalog.find(str(file))
    assert "\n" not in str(told.value)


def test_conditions_of_a_machine(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    head = 'description = "mine"\n'
    guest = '[guest]\nmemory = "512M"\n'
    keys = 'swappiness = 60\naslr = false\ncpus = "0-2,5"\nisolation = "boot"\n'
    file.write_text(f'{head}{keys}{guest}[swap]\nkind = "file"\nsize = "1G"\n')
    conditions = machine(str(file)).conditions
    assert conditions.cpu_list() == (0, 1, 2, 5)
    assert conditions.wanted() == {
        "swappiness": 60,
        "aslr": False,
        "swap": {"kind": "file", "sz_bytes": 1 << 30, "algorithm": "lz4", "device": None},
    }
    for text, message in (
        (f'{head}cpus = "a"\n{guest}', "not a list of CPUs"),
        (f'{head}{guest}[swap]\nkind = "disk"\n', "needs its 'device'"),
        (f'{head}{guest}[swap]\nkind = "zram"\n', "needs its 'size'"),
        (f'{head}{guest}[image]\noverlays = ["nonsuch"]\n', "suite 'nonsuch' is not installed"),
        (f'{head}isolation = "boot"\n[ssh]\nhost = "x"\n', "isolation 'boot' is for guests"),
        (f'{head}[ssh]\nhost = "x"\n[image]\npackages = ["x"]\n', r"\[image\] is for guests"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=message):
            machine(str(file))
    assert Conditions().wanted() == {}


def test_a_process_and_a_workload_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="either a workload, a command or a pid"):
        StudyConfig(workload="redis/cache", command=None, pid=1, machine="local", nr_samples=2)
    with pytest.raises(ConfigError, match="--metric is for a running process"):
        StudyConfig(workload="redis/cache", command=None, machine="local", nr_samples=2, metrics=["a=file:b"])
    with pytest.raises(ConfigError, match="a window must be longer than 0 s"):
        StudyConfig(workload=None, command=None, pid=1, machine="local", nr_samples=2, unit_work_s=0)
    assert StudyConfig(workload=None, command=None, pid=7, machine="local", nr_samples=2).label == "pid-7-local"


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_suite_is_built_from_a_tree(own_cache: Path) -> None:
    """Programs that cannot be built are named with their reason, and the others are there."""
    said: list[str] = []
    about = install.install("splash3", str(TREES / "splash3"), said.append)
    assert about["built"] == ["lu_cb"]
    assert "undeclared" in about["failed"]["radix"]
    assert about["failed"]["raytrace"] == "inputs is missing"
    assert about["failed"]["fft"] == "the tree has no codes/kernels/fft"
    assert about["commit"].startswith("content ")
    place = own_cache / "trees/splash3"
    assert place.resolve() == Path(about["path"])
    assert (place / "overlay.ext4").stat().st_size > 100_000
    assert (place / "tree/lu_cb/LU").stat().st_mode & 0o111
    assert "no_such_thing" in (place / "build.log").read_text()
    assert not list((TREES / "splash3").rglob("*.o"))  # the user's copy stays as it was
    again = install.install("splash2x", str(TREES / "splash3"))
    assert (again["suite"], again["path"]) == ("splash3", about["path"])
    assert paths.tree("splash3")


@pytest.mark.slow
def test_a_suite_is_cloned_and_its_commit_recorded(own_cache: Path, tmp_path: Path) -> None:
    """The content is recorded, too, since files of a folder may have changed after the commit."""
    tree = tmp_path / "splash"
    shutil.copytree(TREES / "splash3", tree)
    git = ["git", "-C", str(tree), "-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert install.install("splash3", f"file://{tree}")["commit"] == head
    unchanged = install.install("splash3", str(tree))["commit"]
    (tree / "README").write_text("changed")
    changed = install.install("splash3", str(tree))["commit"]
    assert unchanged.startswith(f"{head}, content ")
    assert changed.startswith(f"{head}, content ")
    assert changed != unchanged


def test_the_settings_of_a_foreign_repository_start_no_program(own_cache: Path, tmp_path: Path) -> None:
    """Nothing of cassandra is built, so nothing of its tree is to run on this computer."""
    tree, ran = tmp_path / "suite", tmp_path / "ran"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin/cassandra").write_text("x")
    git = ["git", "-C", str(tree), "-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 >> {ran}\n")
    program.chmod(0o755)
    (tree / ".gitattributes").write_text("* filter=planted\n")
    for key in ("core.fsmonitor", "filter.planted.clean", "core.sshCommand", "core.pager", "diff.external"):
        subprocess.run([*git, "config", key, str(program)], check=True)
    assert not ran.exists()
    install.install("cassandra", str(tree))
    assert not ran.exists()


@pytest.mark.parametrize(
    ("suite", "source", "message"),
    [
        ("splash4", "x", "unknown suite 'splash4'; did you mean 'splash3'"),
        ("splash3", "/no/such", "no such folder"),
        ("parsec3", str(TREES / "splash3"), "this is not parsec3, it has no bin/parsecmgmt"),
    ],
)
def test_what_is_no_suite_is_refused(own_cache: Path, suite: str, source: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        install.install(suite, source)


def test_a_suite_of_which_nothing_builds_is_not_installed(own_cache: Path, tmp_path: Path) -> None:
    (tmp_path / "tree/codes").mkdir(parents=True)
    (tmp_path / "tree/codes/Makefile.config").touch()
    with pytest.raises(UnsupportedError, match="no program of splash3 could be built"):
        install.install("splash3", str(tmp_path / "tree"))
    assert paths.tree("splash3") is None


def test_a_tree_with_its_own_build_program(own_cache: Path) -> None:
    """PARSEC's form: the whole tree is taken, and each program that was built leads to what its build has made."""
    about = install.install("parsec3", str(TREES / "parsec3"))
    assert about["built"] == ["hooks", "parsec.blackscholes"]
    assert about["failed"]["parsec.vips"] == "error: parsec.vips does not build"
    place = own_cache / "trees/parsec3/tree"
    assert (place / "built/parsec.blackscholes/bin/blackscholes").is_file()
    assert (place / "built/hooks/lib").is_dir()


def test_a_program_that_takes_two_suites_waits_for_the_other(own_cache: Path) -> None:
    install.install("cassandra", str(TREES / "cassandra"))
    tried = try_out("cassandra", "guest", lambda _: None)  # starts no guest
    assert (tried.works, tried.fails, tried.waits) == ([], {}, {"cassandra/ycsb": ["ycsb"]})


CONTAINERS = """
description = "two programs"
[real]
command = ["server"]
needs = "server"
packages = ["server"]
[[container]]
name = "agent"
role = "tax"
command = ["python3", "{file:agent.py}", "{vcpus}"]
packages = ["python3"]
env = { A = "1" }
memory_min = "1M"
policy = "senpai"
"""


def test_containers_run_beside_the_program(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(CONTAINERS)
    (tmp_path / "agent.py").write_text("")
    found = catalog.workload(str(file), catalog.Place(lambda program: program))
    application, agent = found.spec(copy, 2)["containers"]
    nothing = {"env": {}, "memory_limits": {}, "policy": None}
    assert application == {"name": "application", "role": "application", "argv": None, **nothing}
    assert agent == {
        "name": "agent", "role": "tax", "argv": ["python3", copy(tmp_path / "agent.py"), "2"], "env": {"A": "1"},
        "memory_limits": {"memory.min": 1 << 20}, "policy": "senpai",
    }  # fmt: skip
    assert found.roles == ("application", "tax")
    assert catalog.wanted(str(file)).packages == ("python3", "server")
    file.write_text(CONTAINERS.replace("1M", "2M"))
    assert catalog.workload(str(file), catalog.Place(lambda program: program)).identity != found.identity
    with pytest.raises(UnsupportedError, match=r"container 'agent' needs python3, .*apt-get install python3"):
        catalog.workload(str(file), catalog.Place({"server": "server"}.get))


def test_the_program_itself_can_have_limits_and_a_policy(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("")
    file = tmp_path / "two.toml"
    file.write_text(CONTAINERS + '[[container]]\nname = "server"\nrole = "application"\nmemory_low = "3M"\n')
    agent, server = catalog.find(str(file))[1].containers
    assert (agent.name, server.name, server.memory_limits) == ("agent", "server", {"memory.low": 3 << 20})


TWICE = '[[container]]\nname = "agent"\nrole = "tax"\ncommand = ["x"]\n[[container]]'


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (('role = "tax"', 'role = "taxes"'), "'application', 'sidecar' or 'tax'"),
        (('name = "agent"', 'name = "load"'), "damoos uses this name itself"),
        (('name = "agent"', 'name = "../agent"'), "match"),
        (('command = ["python3", "{file:agent.py}", "{vcpus}"]\n', ""), "has no command, so it is the program of"),
        (('memory_min = "1M"', 'memory_min = "much"'), "much"),
        (("[[container]]", TWICE), "of its own"),
        (('[real]', '[model]\nfile = "x"\nrate = 1\nmemory_scale = 1\n[real]'), "not beside"),
    ],
)  # fmt: skip
def test_a_container_that_cannot_be_is_refused(tmp_path: Path, change: tuple[str, str], wrong: str) -> None:
    file = tmp_path / "two.toml"
    file.write_text(CONTAINERS.replace(*change))
    with pytest.raises(ConfigError, match=wrong):
        catalog.find(str(file))


def test_a_pattern_says_how_well_its_memory_compresses(tmp_path: Path) -> None:
    (tmp_path / "p.pattern").write_text("#regions\na, 64K\n\np\n1\na, 0, 8, 1\n")
    file = tmp_path / "p.toml"
    text = 'description = "p"\n[tune]\nmin_age = "0s:1s"\nunit_work = "1s"\n[pattern]\nfile = "p.pattern"\nrate = 1\n'
    file.write_text(f"{text}compression = 2.5\n")
    workload = catalog.workload(str(file), catalog.Place(lambda _: None))
    argv = workload.spec(str)["argv"]
    assert argv[argv.index("-c") + 1] == "2.5"
    file.write_text(f"{text}compression = 0.5\n")
    with pytest.raises(ConfigError, match="compression"):
        catalog.workload(str(file), catalog.Place(lambda _: None))


def own_file(folder: Path, command: str, more: str = "") -> str:
    """A workload file in a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "own.toml").write_text(f'description = "x"\n[real]\ncommand = {command}\nneeds = "true"\n{more}')
    return str(folder / "own.toml")


@pytest.mark.parametrize("name", ["../secret", "link", "{}/secret"], ids=["up", "link", "whole path"])
def test_a_file_outside_of_the_workload_file_s_folder_is_not_brought(tmp_path: Path, name: str) -> None:
    """A file of a colleague's must not take what lies on the computer of those who run it to the machine."""
    (tmp_path / "secret").write_text("kept")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/link").symlink_to(tmp_path / "secret")
    name = name.format(tmp_path)
    why = "outside of the workload file's folder .*: put the file beside the workload file, or name the program on the"
    for place in ("command", "setup"):
        words = f'["cat", "{{file:{name}}}"]'
        text = (words, "") if place == "command" else ('["cat"]', f"setup = [{words}]\n")
        with pytest.raises(ConfigError, match=why):
            catalog.find(own_file(tmp_path / "theirs", *text))
    if not name.startswith("/"):
        copied: list[Path] = []
        workload = catalog.workload(own_file(tmp_path / "theirs", f'["./{name}"]'), EVERYTHING)
        with pytest.raises(ConfigError, match=why):
            workload.spec(lambda path: copied.append(path) or "there")
        assert copied == []


@pytest.mark.parametrize("name", ["nosuch", "a" * 5000], ids=["missing", "too long"])
def test_a_file_that_is_not_beside_the_workload_file_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="there is no such file beside it"):
        catalog.find(own_file(tmp_path, f'["cat", "{{file:{name}}}"]'))
    with pytest.raises(ConfigError, match="there is no such file"):
        catalog.find(f"{name}.toml")


@pytest.mark.parametrize("table", ["[pattern]", "[model]\nmemory_scale = 1"])
def test_a_pattern_outside_of_the_folder_is_refused(tmp_path: Path, table: str) -> None:
    (tmp_path / "secret").write_text("kept")
    real = "" if table == "[pattern]" else '[real]\ncommand = ["a"]\nneeds = "a"\n'
    (tmp_path / "theirs").mkdir()
    file = tmp_path / "theirs/own.toml"
    file.write_text(f'description = "x"\n{real}{table}\nfile = "../secret"\nrate = 1\n')
    with pytest.raises(ConfigError, match=r"pattern '\.\./secret' is .*secret, outside of the workload file's folder"):
        catalog.find(str(file))


def test_a_pattern_waits_in_one_way(tmp_path: Path) -> None:
    (tmp_path / "own.pattern").write_text("#regions\na, 1M\n\nwork\n100\na, 0, 8, 1\n")
    file = tmp_path / "own.toml"
    for waits, words in ("paced", ["-p"]), ("sleeps", ["-w", "-b", "8", "-x", "1"]):
        file.write_text(f'description = "x"\n[pattern]\nfile = "own.pattern"\nrate = 1\n{waits} = true\n')
        argv = catalog.workload(str(file), EVERYTHING).argv(str)
        assert argv[1 : 1 + len(words)] == words
        assert catalog.wanted(str(file)).paced
    file.write_text(file.read_text() + "paced = true\n")
    with pytest.raises(ConfigError, match="paced and sleeps are two ways to wait"):
        catalog.find(str(file))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize("theirs", ["folder", "folder/beside"])
def test_a_file_that_another_user_can_replace_is_not_brought(
    tmp_path: Path, theirs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read at each run, long after it was looked at. Whoever has become root by sudo is no other user."""
    monkeypatch.delenv("SUDO_UID", raising=False)
    folder = tmp_path / "folder"
    pattern = 'description = "x"\n[pattern]\nfile = "beside"\nrate = 1\n'
    file = own_file(folder, '["cat", "{file:beside}"]')
    (folder / "beside").write_text("#regions\na, 1M\n\nwork\n100\na, 0, 8, 1\n")
    (folder / "pattern.toml").write_text(pattern)
    for name in (file, str(folder / "pattern.toml")):
        catalog.find(name)
    os.chown(tmp_path / theirs, 61234, 61234)
    for name in (file, str(folder / "pattern.toml")):
        with pytest.raises(ConfigError, match=r"belongs to user 61234, so it could become another file while damoos"):
            catalog.find(name)
    monkeypatch.setenv("SUDO_UID", "61234")
    for name in (file, str(folder / "pattern.toml")):
        catalog.find(name)


def test_a_program_beside_the_file_is_brought_wherever_damoos_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of that name where damoos runs is not; on a command line it is the other way round."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog").touch()
    file = own_file(tmp_path / "mine", '["./prog"]')
    assert catalog.workload(file, EVERYTHING).spec(copy)["argv"] == ["./prog"]  # its set-up makes it, perhaps
    (tmp_path / "mine/prog").touch()
    brought: list[Path] = []
    assert catalog.workload(file, EVERYTHING).spec(lambda path: brought.append(path) or "there")["argv"] == ["there"]
    assert brought == [tmp_path / "mine/prog"]
    assert catalog.command("./prog", Tuning()).spec(copy)["argv"] == ["there/prog"]


def test_who_runs_it_and_where_the_load_goes_is_told_to_the_agent(tmp_path: Path) -> None:
    more = 'user = "redis"\nnetwork = "own"\n[real.load]\ncommand = ["ask"]\naddress = "{}"\n'
    for address in ("127.0.0.1:6379", "socket/own.sock", "none"):
        file = own_file(tmp_path, '["serve"]', more.format(address))
        spec = catalog.workload(file, EVERYTHING).spec(copy)
        assert (spec["user"], spec["network"], spec["load"]["address"]) == ("redis", "own", address)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('user = "root"\n', "'root' is no account for one program, because it may do everything"),
        ('user = "a b"\n', "'a b' is not the name of an account"),
        ('network = "other"\n', "should be 'host' or 'own'"),
        ('[real.load]\ncommand = ["a"]\naddress = "127.0.0.1:70000"\n', "is not 127.0.0.1:PORT"),
        ('[real.load]\ncommand = ["a"]\naddress = "../own.sock"\n', "leads out of the folder"),
        ('[real.metrics]\nq_s = { better = "lower", hdr = "/etc/*", percentile = 50 }\n', "leads out of the folder"),
    ],
)
def test_what_lets_others_in_is_refused(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        catalog.find(own_file(tmp_path, '["a"]', more))
