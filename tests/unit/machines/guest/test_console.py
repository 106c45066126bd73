"""A guest that writes without end: what is kept of it, and what is seen nevertheless."""

from __future__ import annotations

import subprocess
import time

import pytest

from damoos.machines.guest.console import KEPT_BYTES, Console

READY = "Server listening on"


def following(script: str) -> tuple[Console, subprocess.Popen[bytes]]:
    console, process = Console(), subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
    assert process.stdout
    console.follow(process.stdout)
    return console, process


def test_a_line_is_seen_though_much_more_follows_it() -> None:
    console = Console()
    assert not console.has_shown(READY)
    console.take(b"damoos: user space\nServer list")
    console.take(b"ening on :: port 22\n")
    for _ in range(3 * KEPT_BYTES // 1000):
        console.take(b"x" * 1000)
    assert console.has_shown(READY)
    assert READY not in console.text()
    assert not console.has_shown("damoos: user space")


def test_what_was_written_before_counts() -> None:
    console = Console(f"{READY} :: port 22\n")
    assert console.has_shown(READY)


def test_a_flood_is_bounded_and_a_message_quotes_a_few_words_of_it() -> None:
    console, process = following(f"echo '{READY}'; head -c 20000000 /dev/zero; echo; echo last words")
    assert not console.has_shown("never")
    process.wait()
    console.wait(60)
    assert console.nr_bytes > 20_000_000
    assert len(console.text()) <= KEPT_BYTES
    assert console.last_lines(3)[-1] == "last words"
    assert sum(map(len, console.last_lines(3))) <= 1000


def test_what_is_written_while_nobody_reads_makes_its_writer_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("damoos.machines.guest.console._TOGETHER_S", 1000.0)
    console, process = following("head -c 20000000 /dev/zero")
    time.sleep(0.2)
    assert process.poll() is None
    assert console.nr_bytes <= 1 << 16
    process.kill()
    process.wait()
