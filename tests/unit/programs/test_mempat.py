"""The access program, run on this machine."""

from __future__ import annotations

import json
import subprocess
import time
import zlib
from pathlib import Path

import pytest

from damoos.workloads.base import tool

GOOD = """#regions
a, 64K, none
b, 1M

# comment
first
2
a, 1, 64, 80, wo
b, 0, 4096, 20, rw

second
3
b, 0, 4096, 1
"""


def run(tmp_path: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "pattern"
    file.write_text(text)
    return subprocess.run([tool("mempat"), *options, file], capture_output=True, text=True, check=False)


def test_the_work_is_fixed(tmp_path: Path) -> None:
    report = json.loads(run(tmp_path, GOOD, "-r", "1000", "-n", "4", "-o", "1").stdout)
    assert [(phase["name"], phase["ops"]) for phase in report["phases"]] == [("first", 2000), ("second", 12000)]
    assert report["ops"] == 14000
    assert report["seconds"] > 0


def test_a_paced_run_takes_its_time_and_does_the_same_work(tmp_path: Path) -> None:
    text = "#regions\na, 64K\n\np\n200\na, 1, 8, 1\n"
    (paced, long, free) = (
        json.loads(run(tmp_path, text, *words).stdout) for words in (("-p",), ("-p", "-b", "50"), ())
    )
    assert paced["ops"] == long["ops"] == free["ops"] == 200_000
    assert min(paced["seconds"], long["seconds"]) >= 0.2 - 1e-6


def test_a_run_that_sleeps_takes_the_time_of_its_accesses_and_does_the_same_work(tmp_path: Path) -> None:
    text = "#regions\na, 64K\n\np\n200\na, 1, 8, 1\n"
    report = json.loads(run(tmp_path, text, "-w", "-x", "20").stdout)
    assert report["ops"] == 200_000
    assert report["seconds"] >= 0.2


@pytest.mark.parametrize("words", [("-x", "2"), ("-p", "-x", "2"), ("-w", "-x", "0")])
def test_page_faults_count_more_often_only_where_it_sleeps(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(tmp_path, GOOD, *words)
    assert (done.returncode, done.stderr) == (2, "mempat: -x: the factor is a number above 0, and goes with -w\n")


def test_masims_own_defaults_are_understood(tmp_path: Path) -> None:
    text = (
        "#regions\na, 256, none\nb, 64, none\nc, 128, none\n\nexample phase 1\n10\na, 1, 64, 80, wo\n\n"
        "example phase 2\n10\nc, 1, 64, 50, ro\nb, 0, 4096, 50, rw\n"
    )
    assert json.loads(run(tmp_path, text).stdout)["ops"] == 20_000


def test_initial_data_is_read(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"x" * 4096)
    assert run(tmp_path, f"#regions\na, 4096, {data}\n\np\n1\na, 0, 8, 1, ro\n").returncode == 0
    assert "shorter than region" in run(tmp_path, f"#regions\na, 8192, {data}\n\np\n1\na, 0, 8, 1, ro\n").stderr


@pytest.mark.parametrize("options", [(), ("-c", "2.5")])
def test_memory_is_touched_as_the_pattern_says(tmp_path: Path, options: tuple[str, ...]) -> None:
    """A region that no phase names stays untouched: resident memory is what was accessed."""
    text = "#regions\nused, 8M\nspare, 64M\n\np\n10\nused, 0, 4096, 1\n"
    file = tmp_path / "pattern"
    file.write_text(text)
    done = subprocess.run(
        ["python3", "-c", "import resource,subprocess,sys; subprocess.run(sys.argv[1:], stdout=-3);"
         "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)", tool("mempat"), *options, file],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rss_kib = int(done.stdout)
    assert 8 << 10 <= rss_kib < 40 << 10


@pytest.mark.parametrize(("factor", "mode"), [(1.1, "rw"), (2.5, "wo"), (3.9, "ro")])
def test_memory_compresses_by_the_factor_whatever_is_written_to_it(tmp_path: Path, factor: float, mode: str) -> None:
    file = tmp_path / "pattern"
    file.write_text(f"#regions\na, 4M\n\nfill\n2\na, 0, 4096, 1, {mode}\n\ngo on\n1000000\na, 1, 8, 1, {mode}\n")
    program = subprocess.Popen([tool("mempat"), "-p", "-c", str(factor), file])
    try:
        content = b""
        give_up = time.monotonic() + 60
        while content.count(bytes(4096)) or len(content) < 4 << 20:
            assert program.poll() is None
            assert time.monotonic() < give_up, f"{len(content)} bytes, {content.count(bytes(4096))} blocks not filled"
            content = _largest_mapping(program.pid)
    finally:
        program.kill()
        program.wait()
    assert len(content) / len(zlib.compress(content, 1)) == pytest.approx(factor, rel=0.1)


def _largest_mapping(pid: int) -> bytes:
    """The content of a region: no other mapping of the program is as large."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    spans = [tuple(int(end, 16) for end in line.split()[0].split("-")) for line in lines if line.endswith(" 0 ")]
    start, end = max(spans, key=lambda span: span[1] - span[0], default=(0, 0))
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(start)
        return memory.read(end - start)


@pytest.mark.parametrize("factor", ["0.9", "two", "nan", ""])
def test_what_is_no_factor_of_compression(tmp_path: Path, factor: str) -> None:
    done = run(tmp_path, GOOD, "-c", factor)
    assert (done.returncode, "-c: expected a factor of 1 or more" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#regions\na, 64K\n\np\n1\nb, 0, 8, 1\n", "pattern:6: no region 'b'"),
        ("#regions\na, 64Q\n\np\n1\na, 0, 8, 1\n", "pattern:2: region length: '64Q' is not a number"),
        ("#regions\na, 64K\n\np\nsoon\na, 0, 8, 1\n", "pattern:5: phase time: expected a number, got 'soon'"),
        ("#regions\na, 64K\n\np\n1\na, 0, 0, 1\n", "stride of 0"),
        ("#regions\na, 64K\n\np\n1\na, 0, 8, 0\n", "no pattern with a probability above 0"),
        ("#regions\na, 64K\n\np\n1\na, 0, 8, 1, xo\n", "mode 'xo' is none of ro, wo, rw"),
        ("#regions\na, 4\n\np\n1\na, 0, 8, 1\n", "shorter than one access"),
        ("", "no regions or no phases"),
    ],
)
def test_wrong_files_are_told_by_line(tmp_path: Path, text: str, message: str) -> None:
    done = run(tmp_path, text)
    assert done.returncode == 2
    assert message in done.stderr
