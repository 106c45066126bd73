from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from damoos.agent import metric_source, regex
from damoos.agent.metric_source import dated_reading, number_in, reading, time_beside
from damoos.errors import MeasurementError
from tests.conftest import until

PROMETHEUS = """# HELP latency of requests, 99 of 100 below
# TYPE latency summary
latency{quantile="0.5",method="get"} 0.2
latency{quantile="0.99",method="get"} 1.5 1700000000000
latency{quantile="0.99",method="set"} 2.5
latency_count 1e+06
broken NaN
"""


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("7.5", "", 7.5),
        ("about 7.5 a second\n", "", 7.5),
        ("p99_ms 1.5\n", "", 1.5),
        ('latency{quantile="0.99"} 1.5', "", 1.5),
        ("-3e-2", "", -0.03),
        ("p50=1.2ms p99=3.4ms", r"/p99=([\d.]+)ms/", 3.4),
        ("a 1\nb 2\n", r"/^b (\d+)$/", 2),
        ("load: 12", r"/\d+/", 12),
        ('{"qps": [{"now": 42}]}', "qps.0.now", 42),
        (PROMETHEUS, 'latency{quantile="0.99", method="get"}', 1.5),
        (PROMETHEUS, 'latency{method="set"}', 2.5),
        (PROMETHEUS, "latency_count", 1e6),
    ],
)
def test_the_number_that_is_named_is_read(text: str, key: str, value: float) -> None:
    assert number_in(text, key) == value


def test_a_file_tells_how_old_its_number_is(tmp_path: Path) -> None:
    file = tmp_path / "p99"
    file.write_text("7.5")
    os.utime(file, (time.time() - 400, time.time() - 400))
    value, age_s = dated_reading("file", [str(file)])
    assert (value, age_s) == (7.5, pytest.approx(400, abs=60))
    assert dated_reading("file", ["/proc/loadavg"], r"/^([\d.]+)/")[1] is None  # the kernel makes it as it is read
    assert dated_reading("cmd", ["echo", "7.5"]) == (7.5, None)


def test_a_page_of_prometheus_may_tell_when_a_number_was_measured() -> None:
    assert time_beside(PROMETHEUS, 'latency{quantile="0.99",method="get"}') == 1.7e9
    assert time_beside(PROMETHEUS, "latency_count") is None
    assert time_beside('{"a": 1}', "a") is None
    assert time_beside("a 1", "") is time_beside("a 1", "/a (.)/") is None


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("none", "", "no number in it: 'none'; name one by #KEY behind it"),
        ("p99=1.5ms", "", "no number in it: 'p99=1.5ms'"),
        ("", "", "no number in it: ''"),
        ("1 2", "", "2 numbers in it: '1 2'; name one by #KEY behind it"),
        ("1 2", r"/\d/", "2 numbers at"),
        ("x", r"/x/", "could not convert"),
        ("x", r"/(y)?x/", "could not convert"),
        ("x" * 1000, r"/x+/", "could not convert 'xxxx"),
        ('{"a": {}}', "a", "the answer has no number at 'a'"),
        ('{"a": NaN}', "a", "the number at 'a' is nan"),
        ('{"a": 1' + "0" * 400 + "}", "a", "the number at 'a' is inf"),
        ('{"a": "' + "1" * 1000 + '"}', "a", "the answer has no number at 'a'"),
        ("[" * 100_000, "a", "the answer is JSON that nests too deeply"),
        ("[1", "a", "Expecting"),
        (PROMETHEUS, "latency", "3 numbers at 'latency'"),
        (PROMETHEUS, 'latency{quantile="0.9"}', "no number at"),
        (PROMETHEUS, "broken", "the number at 'broken' is nan"),
    ],
)
def test_what_is_not_one_number_is_refused(tmp_path: Path, text: str, key: str, message: str) -> None:
    (tmp_path / "told").write_text(text)
    with pytest.raises(MeasurementError) as refused:
        reading("cmd", ["cat", str(tmp_path / "told")], key)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('a{b="}"} 1', 1), ('a {b="x\\"y"}\t1 -5', 1), ("a 1 5.5", None), ("a{ 1", None), ('a{b="x"}1', None),
        ("a", None), ("a-b 1", None), ("a ", None), ("a\t1", 1), ("ab 1", None), ("", None),
        ("a" + " " * (1 << 17) + "1", None),
    ],
)  # fmt: skip
def test_a_line_of_the_prometheus_format(line: str, value: float | None) -> None:
    """Beside another line of it."""
    text = f"b 2\n{line}"
    if value is not None:
        assert number_in(text, "a") == value
    else:
        with pytest.raises(ValueError, match="no number at 'a'"):
            number_in(text, "a")


MIB = 1 << 20
LONG = {
    "digits": ("1" * MIB + "x", ""),
    "blanks between words": ("a" + " " * MIB + "b c d", "a"),
    "blanks at the end": ("a 1 5" + " " * MIB + "x", "a"),
    "labels": ("a{" + "b" * MIB + "} 1", 'a{b="1"}'),
    "lines of labels": (("a{" + "b" * 60_000 + "} 1\n") * 16, 'a{b="1"}'),
    "lines of blanks": (("a" + " " * 60_000 + "b c d\n") * 16, "a"),
    "braces": ("a{" + "}" * MIB, "a"),
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_text_takes_no_longer_than_it_is_long(name: str) -> None:
    """None of these ended."""
    text, key = LONG[name]
    with pytest.raises(ValueError, match="no number"):
        number_in(text, key)


def test_an_endless_expression_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "LIMIT_S", 0.3)
    with pytest.raises(MeasurementError, match=r"^'echo a{60}': '\(a\+\)\+b' takes more than 0\.3 s on this text"):
        reading("cmd", ["echo", "a" * 60], "/(a+)+b/")
    assert reading("cmd", ["echo", "7"], "/(.)/") == 7


def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="'/dev/zero': it is no regular file"):
        reading("file", ["/dev/zero"])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MeasurementError, match="it is no regular file"):
        reading("file", [str(tmp_path / "pipe")])
    with open(tmp_path / "large", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(MeasurementError, match="the file is larger than 4 MiB"):
        reading("file", [str(tmp_path / "large")])
    assert reading("file", ["/proc/self/stat"], r"/^(\d+)/") == os.getpid()


def test_a_command_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it has started."""
    with pytest.raises(MeasurementError, match=r"^'yes': it printed more than 4 MiB$"):
        reading("cmd", ["yes"])
    monkeypatch.setattr(metric_source, "READING_S", 0.5)
    for words in ("sleep 31.41", "sleep 31.42 & exec >&- 2>&-; wait", "sleep 31.43 & echo 1"):
        with pytest.raises(MeasurementError, match=r"it took longer than 0\.5 s$"):
            reading("cmd", ["sh", "-c", words])
    until(lambda: subprocess.run(["pgrep", "-f", r"^sleep 31\.4"], capture_output=True, check=False).stdout == b"")


def test_the_error_output_of_a_command_is_told_by_its_end() -> None:
    words = "yes | head -c 10000000 >&2; echo oops >&2; exit 3"
    with pytest.raises(MeasurementError, match=r"it ended with 3: [y\s]+oops$") as told:
        reading("cmd", ["sh", "-c", words])
    assert len(str(told.value)) < 300


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * (5 << 20), "the page is larger than 4 MiB"),
        (b"HTTP/1.0 200 OK\r\n\r\n\xff", "can't decode byte"),
        (b"junk\r\n\r\n", "junk"),
        (b"HTTP/1.0 302 Found\r\nLocation: ftp://127.0.0.1:9/\r\n\r\n", "unknown url type: ftp"),
        (b"HTTP/1.0 200 OK\r\n" + b"x: y\r\n" * 1000, "got more than 100 headers"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\nx", "no number"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "IncompleteRead|invalid literal|no number"),
    ],
    ids=["large", "no text", "no HTTP", "to FTP", "headers", "short", "chunks"],
)
def test_a_page_that_is_none_is_told(answer: bytes, message: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            taken, _ = listening.accept()
            with taken, contextlib.suppress(OSError):
                taken.recv(1 << 16)
                taken.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(MeasurementError, match=message):
            reading("url", [f"http://127.0.0.1:{listening.getsockname()[1]}/"])
        thread.join()


@pytest.mark.parametrize(
    "begin",
    [b"", b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1", b"\x16\x03\x03"],
    ids=["status", "header", "size of a chunk", "TLS"],
)  # fmt: skip
def test_a_page_of_which_a_byte_comes_now_and_then_is_cut(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_source, "READING_S", 0.5)
    cut = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            taken, _ = listening.accept()
            with taken, contextlib.suppress(OSError):
                taken.sendall(begin)
                while not cut.wait(0.02):
                    taken.sendall(b"1")
            cut.set()

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        scheme = "https" if begin.startswith(b"\x16") else "http"
        with pytest.raises(MeasurementError, match=r"took longer than 0\.5 s"):
            reading("url", [f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/"])
        thread.join()
    assert cut.is_set()
