"""Words that nobody would write: no command line and no file ends in a traceback, or with a code of no meaning.

`make fuzz` goes on without end; here a few hundred examples are tried, the same each time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from damoos import cli
from damoos.common import paths
from damoos.machines.guest import GuestMachine
from damoos.machines.local import LocalMachine

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "80"))
FUZZ = settings(
    max_examples=EXAMPLES, deadline=None, derandomize="FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
# Those of docs/commands.md; 70 only where a machine would have been opened.
CODES = {0, 1, 2, 3, 4, 5, 130}
NASTY = [
    "", " ", "-", "--", "0", "-1", "1", "nan", "inf", "-inf", "1e999", "99999999999999999999", "0s", "1s", "5", "1,5s",
    "-1s", "1h", "0%", "50%", "500%", "nan%", "1M", "0M", "1x", "a,b", ",", "a=b", "=", "x=1:2", "min_age=0s:5s",
    "max_freq=0:20", "attrs.aggr=1:2", "quotas.goals[9].target=1:2", "action=cold,pageout", "slowdown<=0.1", "<=",
    "./x", "/dev/null", "/", "..", "x.toml", "x.damos", "4K max min min MIN_AGE max pageout", "guest", "local",
    "redis/idle", "redis/*", "synthetic/[", "prcl", "senpai", "senpai:ratio=1%", "any", "damos,senpai", "sla",
    "weighted", "psi", "random", "grid", "optuna:tpe", "optuna:", "\u00df\u0662", "\x00", "{input}", "{",
    "%s", "a" * 5000,
]  # fmt: skip
OPTIONS: dict[str, tuple[str, ...]] = {
    "tune": (
        "--workload", "--command", "--pid", "--metric", "--settle", "--machine", "--kernels", "--run-limit", "--memory",
        "--write-limit", "--policy", "--scheme", "--tune", "--operations", "--score", "--maximize", "--minimize",
        "--limit", "--weight", "--prices", "--trials", "--time-limit", "--unit-work", "--searcher", "--prior", "--like",
        "--seed", "--repeats", "--candidates", "--runs", "--format",
    ),
    "evaluate": ("--workloads", "--machines", "--configs", "--operations", "--memory", "--write-limit", "--repeats",
                 "--seed", "--format"),
    "league": ("--workloads", "--machines", "--policies", "--limit", "--trials", "--repeats", "--seed", "--format"),
    "sweep": ("--workloads", "--machines", "--policy", "--tune", "--limit", "--score", "--trials", "--format"),
    "predict": ("--workload", "--score", "--policy", "--format"),
    "show": ("--limit", "--pid", "--format"),
    "validate": ("--limit", "--repeats", "--candidates"),
    "machines show": ("--format",),
    "workloads show": ("--format",),
}  # fmt: skip


class Booted(Exception):
    """A machine would have been opened: the words were taken."""


@pytest.fixture(scope="module", autouse=True)
def _nothing_boots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    def opened(*_: Any) -> None:
        raise Booted

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("fuzz"))
        patch.setattr(GuestMachine, "open", opened)
        patch.setattr(LocalMachine, "open", opened)
        patch.setattr("signal.signal", lambda *_: None)
        yield


def end(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command line and see how it ends."""
    before = sys.argv
    sys.argv = ["damoos", *argv]
    try:
        with pytest.raises(SystemExit) as exit_:
            cli.main()
    finally:
        sys.argv = before
    code, err = exit_.value.code or 0, capsys.readouterr().err
    if code == cli.INTERNAL:
        assert "internal error: Booted" in err, err
    else:
        assert code in CODES, (code, err)
    if code == 2:
        assert err.startswith("damoos: ")
        # Below it there may be the line of a scheme with a mark.
        assert all(line.startswith("    ") for line in err.splitlines()[1:]), err


words = st.one_of(st.sampled_from(NASTY), st.text(max_size=30))


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    command = draw(st.sampled_from(sorted(OPTIONS)))
    argv = command.split()
    if command in ("show", "validate", "predict", "machines show", "workloads show", "tune") and draw(st.booleans()):
        argv.append(draw(words))
    for option in draw(st.lists(st.sampled_from(OPTIONS[command]), max_size=4)):
        argv += [option, draw(words)]
    return argv


@FUZZ
@given(argv=command_lines())
def test_any_command_line(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    end(argv, capsys)


@st.composite
def files(draw: st.DrawFn, kind: str) -> bytes:
    """A file that comes with damoos, with some of its bytes, values or lines changed."""
    path = draw(st.sampled_from(sorted(paths.data(kind).glob("**/*.toml"))))
    content = path.read_bytes()
    for _ in range(draw(st.integers(1, 3))):
        how = draw(st.sampled_from(("byte", "cut", "line", "value")))
        if how == "byte" and content:
            at = draw(st.integers(0, len(content) - 1))
            content = content[:at] + draw(st.binary(max_size=3)) + content[at + 1 :]
        elif how == "cut":
            content = content[: draw(st.integers(0, len(content)))]
        else:
            lines = content.splitlines()
            if not lines:
                continue
            at = draw(st.integers(0, len(lines) - 1))
            if how == "line":
                lines[at] = b""
            else:
                key = lines[at].partition(b"=")[0]
                word = draw(words).encode("utf-8", "replace").replace(b'"', b"")
                lines[at] = key + b"=" + draw(st.sampled_from((b'"' + word + b'"', b"0", b"-1", b"[]", b"{}", b"true")))
            content = b"\n".join(lines)
    return content


@FUZZ
@given(content=files("machines"))
def test_any_machine_file(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    Path("m.toml").write_bytes(content)
    end(["machines", "show", "./m.toml"], capsys)
    end(["tune", "--command", "true", "--machine", "./m.toml"], capsys)


@FUZZ
@given(content=files("workloads"))
def test_any_workload_file(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    Path("w.toml").write_bytes(content)
    end(["workloads", "show", "./w.toml"], capsys)
    end(["tune", "./w.toml"], capsys)
