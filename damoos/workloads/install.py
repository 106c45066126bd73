"""Suites whose sources are not ours: built from the user's own copy, and laid into guests as a read-only disk.

What comes out lies in the cache, in a folder named by the hash of its content: ``tree`` with what was built,
``overlay.ext4`` with the same as a disk, ``about.json`` with where it is from, and ``build.log``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from damoos.common import addresses, git, host_programs, paths
from damoos.errors import ConfigError, UnsupportedError, WorkloadError, nearest
from damoos.ownership import close_folder
from damoos.workloads import suite_source

Say = Callable[[str], None]


@dataclass(frozen=True)
class Part:
    """One program of a suite.

    Parameters
    ----------
    folder : str
        Where its sources lie in the suite; for a suite with a build program of its own, the name that it is built by.
    keeps : tuple of str
        Files and folders that are laid into the guest; one that is missing after the build is a failed build.
    """

    folder: str
    keeps: tuple[str, ...]


@dataclass(frozen=True)
class Suite:
    """A suite, and how it is built.

    Parameters
    ----------
    marker : str
        File by which its tree is known.
    build : callable
        ``build(root, part)`` gives the command that builds one part in a copy of the tree; None where there is
        nothing to build.
    parts : mapping of str to Part
        By the name of the workload.
    whole : bool
        Whether the parts work only in their tree, so that all of it is laid into the guest.
    prepare : callable or None
        ``prepare(root)`` changes the copy of the tree before anything is built.
    env : mapping of str to str
        Environment variables of the builds.
    result : str
        For a suite that is laid into the guest whole: pattern of the folder that the build of a part fills;
        ``{part}`` stands for the part's short name. ``built/NAME`` in the tree leads there.
    """

    marker: str
    build: Callable[[Path, Part], list[str]] | None
    parts: dict[str, Part] = field(default_factory=dict)
    whole: bool = False
    prepare: Callable[[Path], None] | None = None
    env: dict[str, str] = field(default_factory=dict)
    result: str = ""


# Splash-3's clock counts whole seconds, though its programs call them microseconds.
_CLOCK = "define(CLOCK, `{long time(); ($1) = time(0);}')"
_CLOCK_US = """define(CLOCK, `{
	struct timespec damoos_now;
	clock_gettime(CLOCK_MONOTONIC, &damoos_now);
	($1) = damoos_now.tv_sec * 1000000 + damoos_now.tv_nsec / 1000;
}')"""
_TIME_H = ("#include <pthread.h>\n", "#include <pthread.h>\n#include <time.h>\n")
_OCEAN = "apps/ocean/non_contiguous_partitions"
_IMAX = re.compile(r"(#define [IJ]MAX +)8194")


def _prepare_splash(root: Path) -> None:
    """Let the clock count microseconds, and add a copy of ocean_ncp with smaller arrays.

    Its arrays have the size of the largest grid, 8194, whatever grid is computed, which is more than small machines
    grant. Those of the copy are enough for grids of up to 2050.
    """
    macros = root / "codes/pthread_macros/pthread.m4.stougie"
    text = macros.read_text() if macros.exists() else ""
    if _CLOCK in text:  # another tree's clock is what it is: trying the programs tells whether it is one
        macros.write_text(text.replace(_CLOCK, _CLOCK_US).replace(*_TIME_H))
    large, small = root / "codes" / _OCEAN, root / "codes" / f"{_OCEAN}_2050"
    if large.is_dir():
        shutil.copytree(large, small)
        declarations = small / "decs.h.in"
        declarations.write_text(_IMAX.sub(r"\g<1>2050", declarations.read_text()))


def _make(root: Path, part: Part) -> list[str]:
    """Splash-3's own Makefiles, with a compiler that takes code of the nineties, and no shared libraries to miss."""
    compiler = "gcc -static -fcommon -w"
    return ["make", "-C", str(root / part.folder), f"CC={compiler}", f"BASEDIR={root / 'codes'}"]


# Code of 2006 that a new compiler makes crash if it may assume what the language promises by now: PARSEC's x264 does.
_OLD_CODE = "-O2 -fno-tree-vectorize -fno-strict-aliasing -fno-aggressive-loop-optimizations -fwrapv -fcommon -w"


def _prepare_parsec(root: Path) -> None:
    """Give all files one time: after a clone or a copy, make would take what autoconf has made for out of date."""
    now = time.time()
    for path in root.rglob("*"):
        os.utime(path, (now, now), follow_symlinks=False)


def _parsecmgmt(root: Path, part: Part) -> list[str]:
    """PARSEC's build program; the configuration that prints the time in the region of interest."""
    return [str(root / "bin/parsecmgmt"), "-a", "build", "-c", "gcc-hooks", "-p", part.folder]


def _splash(folder: str, program: str, *inputs: str) -> Part:
    return Part(f"codes/{folder}", (program, *inputs))


_PARSEC = (
    "blackscholes bodytrack canneal dedup facesim ferret fluidanimate freqmine raytrace streamcluster swaptions vips"
    " x264"
)
_SPLASH = "barnes fft lu_cb lu_ncb ocean_cp ocean_ncp radiosity radix raytrace volrend water_nsquared water_spatial"

SUITES: dict[str, Suite] = {
    "splash3": Suite(
        "codes/Makefile.config",
        _make,
        {
            "barnes": _splash("apps/barnes", "BARNES", "inputs"),
            "fft": _splash("kernels/fft", "FFT"),
            "lu_cb": _splash("kernels/lu/contiguous_blocks", "LU"),
            "lu_ncb": _splash("kernels/lu/non_contiguous_blocks", "LU"),
            "ocean_cp": _splash("apps/ocean/contiguous_partitions", "OCEAN"),
            "ocean_ncp": _splash(_OCEAN, "OCEAN"),
            "ocean_ncp_2050": _splash(f"{_OCEAN}_2050", "OCEAN"),
            "radiosity": _splash("apps/radiosity", "RADIOSITY"),
            "radix": _splash("kernels/radix", "RADIX"),
            "raytrace": _splash("apps/raytrace", "RAYTRACE", "inputs"),
            "volrend": _splash("apps/volrend", "VOLREND", "inputs"),
            "water_nsquared": _splash("apps/water-nsquared", "WATER-NSQUARED", "inputs", "random.in"),
            "water_spatial": _splash("apps/water-spatial", "WATER-SPATIAL", "inputs", "random.in"),
        },
        prepare=_prepare_splash,
    ),
    "parsec3": Suite(
        "bin/parsecmgmt",
        _parsecmgmt,
        {
            "hooks": Part("hooks", ("bin/parsecmgmt",)),  # the library that prints the time of the region of interest
            **{f"parsec.{name}": Part(f"parsec.{name}", ("bin/parsecmgmt",)) for name in _PARSEC.split()},
            **{f"splash2x.{name}": Part(f"splash2x.{name}", ("bin/parsecmgmt",)) for name in _SPLASH.split()},
        },
        whole=True,
        prepare=_prepare_parsec,
        env={"CFLAGS": _OLD_CODE, "CXXFLAGS": _OLD_CODE},
        result="*/*/{part}/inst/*-hooks",
    ),
    "cassandra": Suite("bin/cassandra", None, whole=True),
    "ycsb": Suite("bin/ycsb.sh", None, whole=True),
    "spark": Suite("pyspark/bin/spark-submit", None, whole=True),
    "duckdb": Suite("duckdb/__init__.py", None, whole=True),
}
_BUILD_S = 1800


def install(name: str, source: str, say: Say = lambda _: None) -> dict[str, Any]:
    """Build a suite and lay it where guests find it; returns what ``about.json`` says.

    Parameters
    ----------
    name : str
        One of `SUITES`; ``splash2x`` comes with ``parsec3``, or from a tree of Splash-3.
    source : str
        A folder, or a URL that git clones.

    Raises
    ------
    ConfigError : no such suite or folder, or it holds something else, or what cannot be copied
    UnsupportedError : a program that is needed for it is missing, or nothing of it could be built
    """
    suite_name = _suite_of(name, source)
    suite = SUITES[suite_name]
    base = paths.program("trees")
    with paths.locked(base), tempfile.TemporaryDirectory(prefix="build-", dir=base) as work_name:
        work = Path(work_name)
        root, commit = _fetched(source, suite_name, work, say)
        if suite.prepare:
            suite.prepare(root)
        out = work / "out"
        (out / "tree").mkdir(parents=True)
        with open(out / "build.log", "w") as log:
            built, failed = _built(suite, root, out / "tree", log, say)
        if suite.parts and not built:
            first = next(iter(failed.items()))
            kept = base / f"{suite_name}.log"
            shutil.copy(out / "build.log", kept)
            raise UnsupportedError(
                f"no program of {suite_name} could be built; {first[0]}: {first[1]} ({kept} has it all)"
            )
        about = {
            "suite": suite_name,
            "from": source,
            "commit": commit,
            "compiler": _first_line("gcc", "--version") if suite.build else None,
            "built": sorted(built),
            "failed": failed,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        (out / "about.json").write_text(json.dumps(about, indent=2) + "\n")
        _pack(out)
        target = base / f"{suite_name}-{suite_source.content_hash(out / 'tree')}"
        if target.exists():
            shutil.rmtree(target)
        close_folder(out, base)
        out.rename(target)
        link = base / f"{suite_name}.new"
        link.unlink(missing_ok=True)
        link.symlink_to(target.name)
        link.rename(base / suite_name)
    return {**about, "path": str(target)}


def _suite_of(name: str, source: str) -> str:
    """The suite that a name means; splash2x is whichever of the two trees was given."""
    if name == "splash2x":
        return "splash3" if (Path(source) / SUITES["splash3"].marker).exists() else "parsec3"
    if name not in SUITES:
        raise ConfigError(f"unknown suite '{name}'{nearest(name, ['splash2x', *SUITES])}")
    return name


def _fetched(source: str, name: str, work: Path, say: Say) -> tuple[Path, str]:
    """A copy of the tree that may be built in, and what identifies it.

    A folder's files may have changed since its commit. git could tell, but is not run in a tree of another person.
    """
    root = work / "source"
    if "://" in source or source.endswith(".git"):
        if addresses.has_secret(source):
            raise ConfigError(
                f"--from {addresses.hidden(source)}: leave the password out, where other users see it; name a clone of"
                " yours, or have git read it (a credential helper, ~/.netrc)"
            )
        say(f"cloning {source}")
        _do(*git.clone(_absolute(source), root))
    else:
        folder = Path(source).expanduser().absolute()
        if not folder.is_dir():
            raise ConfigError(f"--from {source}: no such folder")
        if not (folder / SUITES[name].marker).exists():
            raise ConfigError(f"--from {source}: this is not {name}, it has no {SUITES[name].marker}")
        say(f"copying {folder}")
        suite_source.copy(folder, root)
        commit = git.head(folder)
        return root, f"{f'{commit}, ' if commit else ''}content {suite_source.content_hash(root)}"
    if not (root / SUITES[name].marker).exists():
        raise ConfigError(f"--from {source}: this is not {name}, it has no {SUITES[name].marker}")
    return root, git.head(root) or f"content {suite_source.content_hash(root)}"


def _absolute(source: str) -> str:
    """What git clones, if it is a folder by its whole path: git does not run in the current folder."""
    is_folder = "://" not in source and ":" not in source.partition("/")[0]
    return str(Path(source).expanduser().absolute()) if is_folder else source


def _built(suite: Suite, root: Path, tree: Path, log: Any, say: Say) -> tuple[list[str], dict[str, str]]:
    """Build each part; returns the names of those that work, and why the others do not."""
    built: list[str] = []
    failed: dict[str, str] = {}
    for name, part in suite.parts.items():
        say(f"building {name}")
        problem = _build(suite, root, part, log)
        missing = [file for file in part.keeps if not (root / _place(suite, part) / file).exists()]
        if problem or missing:
            failed[name] = problem or f"{missing[0]} is missing"
            say(f"{name}: {failed[name]}")
            continue
        built.append(name)
        if not suite.whole:
            for file in part.keeps:
                _copy(root / part.folder / file, tree / name / file)
    if suite.whole:
        shutil.copytree(root, tree, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git", "obj"))
        (tree / "built").mkdir(exist_ok=True)
        for name in built:
            _link(tree, name, suite.result)
    return built, failed


def _link(tree: Path, name: str, result: str) -> None:
    """``built/NAME``: what the build of a part has made, or an empty file where that has no known place."""
    found = sorted(tree.glob(result.format(part=name.rpartition(".")[2]))) if result else []
    if found:
        (tree / "built" / name).symlink_to(Path("..", *found[0].relative_to(tree).parts))
    else:
        (tree / "built" / name).touch()


def _place(suite: Suite, part: Part) -> str:
    return "" if suite.whole else part.folder


def _build(suite: Suite, root: Path, part: Part, log: Any) -> str:
    """What is wrong with the build of a part; empty if nothing is."""
    if suite.build is None:
        return ""
    if not suite.whole and not (root / part.folder).is_dir():
        return f"the tree has no {part.folder}"
    argv = suite.build(root, part)
    log.write(f"\n# {' '.join(argv)}\n")
    # make exports its own settings to what it starts, and these builds are not part of one of ours.
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    env |= suite.env
    try:
        done = subprocess.run(
            argv, cwd=root, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=_BUILD_S, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise UnsupportedError(f"building needs {argv[0]}: apt-get install make gcc libc6-dev m4") from None
    except subprocess.TimeoutExpired:
        return f"its build did not end within {_BUILD_S} s"
    log.write(done.stdout)
    return "" if done.returncode == 0 else _why(done.stdout)


def _why(output: str) -> str:
    """The line of a build's output that tells most: its first error, else its last words."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("checking ")]
    errors = [line for line in lines if "error" in line.lower() or "not found" in line or "No such file" in line]
    return (errors or lines[-1:] or ["it said nothing"])[0][:300]


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)


def _pack(out: Path) -> None:
    """The tree as a read-only disk, with room for nothing else."""
    size = sum(path.lstat().st_size + 8192 for path in sorted((out / "tree").rglob("*")))
    blocks = f"{size // 1024 * 5 // 4 + 8192}K"
    _do(
        "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-E", "root_owner=0:0",
        "-d", str(out / "tree"), str(out / "overlay.ext4"), blocks,
    )  # fmt: skip


def _first_line(*argv: str) -> str:
    return (_do(*argv).splitlines() or [""])[0]


def _do(*argv: str) -> str:
    try:
        done = host_programs.run(argv)
    except FileNotFoundError:
        raise UnsupportedError(f"{argv[0]} is missing on this host") from None
    if done.returncode != 0:
        raise WorkloadError(f"{argv[0]} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout
