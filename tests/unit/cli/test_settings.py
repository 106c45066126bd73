"""Defaults of the user's own, and what goes before them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from damoos.cli import main, settings

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """A command line in an empty folder, with an empty home; exit code and both outputs."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def run(*words: str) -> tuple[int, str, str]:
        settings.settings.cache_clear()
        monkeypatch.setattr("sys.argv", ["damoos", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    yield run  # type: ignore[misc]
    settings.settings.cache_clear()


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def dry(command: Command, *words: str) -> dict[str, object]:
    code, out, err = command("tune", "redis/idle", "--dry-run", "--format", "json", *words)
    assert code == 0, err
    found: dict[str, object] = json.loads(out)
    return found


def test_the_nearer_one_goes_first(command: Command, tmp_path: Path) -> None:
    write(tmp_path / "home/damoos/config.toml", 'machine = "guest-zram"\ntrials = 4\n')
    assert dry(command)["trials"] == 4
    assert str(dry(command)["machine"]).startswith("guest-zram: ")
    write(Path("damoos.toml"), "trials = 6\n")
    assert dry(command)["trials"] == 6
    assert str(dry(command)["machine"]).startswith("guest-zram: ")
    assert dry(command, "--trials", "8")["trials"] == 8
    assert str(dry(command, "--machine", "guest")["machine"]).startswith("guest: ")


def test_a_process_that_runs_is_one_of_this_machine(command: Command) -> None:
    write(Path("damoos.toml"), 'machine = "guest-zram"\n')
    code, out, _ = command("tune", "--pid", str(os.getpid()), "--dry-run")
    assert (code, "machine   local" in out) == (0, True)


def test_results_and_storage_are_those_of_every_command(command: Command, tmp_path: Path) -> None:
    write(Path("damoos.toml"), f'results = "{tmp_path}/nowhere"\n')
    assert command("studies") == (0, "", "")
    code, _, err = command("show", "nosuch")
    assert (code, "there are no studies yet" in err) == (2, True)
    assert str(tmp_path / "nowhere") in err
    assert not (tmp_path / "nowhere").exists()  # nothing is made by looking
    assert not Path("results").exists()


def test_what_is_set_is_shown(command: Command, tmp_path: Path) -> None:
    assert command("config", "show")[1].count("not set") == len(settings.KEYS)
    write(Path("damoos.toml"), 'run_limit = "5m"\n')
    assert "5m  (damoos.toml)" in command("config", "show")[1]
    shown = json.loads(command("config", "show", "--format", "json")[1])
    assert (shown["run_limit"], shown["machine"]) == ({"value": "5m", "file": "damoos.toml"}, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('machin = "guest"', "unknown key 'machin'; did you mean 'machine'?"),
        ("trials = 1", "key 'trials': "),
        ('run_limit = "5"', "key 'run_limit': "),
        ("results = 5", "key 'results': "),
        ("=", "not valid TOML"),
        ("a = " + "[" * 100_000, "not valid TOML: nested too deeply"),
        ("trials = " + "1" * 5000, "not valid TOML: Exceeds the limit"),
        ("trials = 0x" + "f" * 5000, "not valid TOML: an integer of more than 64 bits"),
        ("machine = 'a'\nb" + ".b" * 200_000 + " = 1", "not valid TOML: a key of more than 20 parts (at line 2)"),
        ("a = {b" + " . 'b'" * 200_000 + " = 1}", "not valid TOML: a key of more than 20 parts (at line 1)"),
        ('results = "r\\u0000"', "not valid TOML: a string with a NUL character"),
    ],
    ids=lambda value: value[:30],
)
def test_a_wrong_file_is_told(command: Command, text: str, message: str) -> None:
    write(Path("damoos.toml"), text)
    code, out, err = command("studies")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"damoos: damoos.toml: {message}")


@pytest.mark.parametrize("user", ["me", "me@corp", "m?e", "m#e", "m e"])
def test_a_password_is_neither_taken_nor_shown(command: Command, user: str) -> None:
    write(Path("damoos.toml"), f'storage = "postgresql+psycopg://{user}:planted-S3CRET@127.0.0.1:9/db"\n')
    for words in (["config", "show"], ["config", "show", "--format", "json"], ["studies"]):
        code, out, err = command(*words)
        assert (code, "S3CRET" in out + err) == (2 if words == ["studies"] else 0, False)
        assert f"postgresql+psycopg://{user}:***@127.0.0.1:9/db" in out + err


def test_a_file_of_another_user_is_not_read(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    write(Path("damoos.toml"), "trials = 5\n")
    os.chown("damoos.toml", 12345, 12345)
    code, out, err = command("config", "show")
    assert (code, out.count("not set")) == (0, len(settings.KEYS))
    assert "belongs to another user, so it is not read" in err


def test_a_time_limit_that_is_said_goes_before_a_number_that_is_set(command: Command) -> None:
    write(Path("damoos.toml"), "trials = 5\n")
    assert dry(command, "--time-limit", "70s", "--unit-work", "10s")["trials"] == 7
    code, _, err = command("tune", "--command", "true", "--trials", "5", "--time-limit", "70s", "--unit-work", "10s")
    assert (code, err) == (2, "damoos: give either --trials or --time-limit\n")


@pytest.mark.slow
def test_a_number_of_trials_is_that_of_studies_only(command: Command) -> None:
    write(Path("damoos.toml"), "trials = 20\n")
    words = ("bench", "searchers", "--generate", "6", "--seeds", "1", "--searchers", "grid", "--format", "json")
    code, out, _ = command(*words)
    assert code == 0
    assert {row["trials"] for row in json.loads(out)} == {5, 10, 20}
