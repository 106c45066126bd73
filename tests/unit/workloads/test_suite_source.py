"""A suite's folder of another person: copied with odd names, and refused in a line with what cannot be copied."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from damoos.errors import ConfigError
from damoos.workloads import install, suite_source


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite of which nothing is built."""
    folder = tmp_path / "suite"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/cassandra").write_text("x")
    (folder / ".git").mkdir()
    os.mkfifo(folder / ".git/HEAD")  # the repository is not copied
    return folder


def hole(path: Path, sz_bytes: int) -> None:
    path.touch()
    os.truncate(path, sz_bytes)


ODD: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (os.mkfifo, "/odd is no file, folder or link; remove it"),
    "hole": (lambda path: hole(path, 8 << 40), r"larger than the \d+ MiB .* \(from .*/odd on\); give the folder"),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_cannot_be_copied_is_refused_in_a_line(suite: Path, cache: Path, kind: str) -> None:
    make, said = ODD[kind]
    make(suite / "odd")
    with pytest.raises(ConfigError, match=f"--from {suite}: .*{said}") as told:
        install.install("cassandra", str(suite))
    assert "\n" not in str(told.value)
    assert [path.name for path in (cache / "trees").iterdir()] == ["lock"]


@pytest.mark.parametrize(("most", "said"), [("MOST_BYTES", "larger than the 0 MiB of any suite"), ("MOST_ENTRIES",
    "more than 2 files")])  # fmt: skip
def test_a_suite_has_a_largest_size(suite: Path, monkeypatch: pytest.MonkeyPatch, most: str, said: str) -> None:
    monkeypatch.setattr(suite_source, most, 2)
    (suite / "large").write_bytes(b"xxx")
    with pytest.raises(ConfigError, match=said):
        install.install("cassandra", str(suite))


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_file_that_has_become_something_else_is_not_copied(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(suite_source, "_check", lambda *_: None)
    if kind == "pipe":
        os.mkfifo(suite / "odd")
        with pytest.raises(ConfigError, match=f"--from {suite}: {suite}/odd cannot be copied: .*not a regular file"):
            install.install("cassandra", str(suite))
    else:
        (suite / "odd").symlink_to(suite / "bin/cassandra")
        with pytest.raises(OSError, match="Too many levels"):
            suite_source._copy_file(str(suite / "odd"), str(tmp_path / "copied"))


def test_a_name_that_is_no_utf_8_and_links_are_copied(suite: Path) -> None:
    for name in (b"\xff", b"a\nb"):
        (suite / os.fsdecode(name)).write_text("x")
    (suite / "loop").symlink_to(".")
    first = install.install("cassandra", str(suite))
    names = {os.fsencode(path.name) for path in (Path(first["path"]) / "tree").iterdir()}
    assert names == {b"\xff", b"a\nb", b"loop", b"bin", b"built"}
    assert (Path(first["path"]) / "tree/loop").is_symlink()
    (suite / os.fsdecode(b"\xff")).rename(suite / os.fsdecode(b"\xfe"))
    assert install.install("cassandra", str(suite))["path"] != first["path"]


def test_the_hash_of_a_suite_stays_as_it_was(tmp_path: Path) -> None:
    """Its folder in the cache is called after it."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/é").write_text("content")
    assert suite_source.content_hash(tmp_path) == "6aedda593dd7"


@pytest.mark.parametrize("user", ["u:hunter2@", "hunter2@"])
def test_no_password_is_cloned_with(user: str) -> None:
    """git's words are seen by all users of this computer."""
    said: list[str] = []
    with pytest.raises(ConfigError, match=r"--from https://\*\*\*@127.0.0.1:1/x.git: leave the password out"):
        install.install("spark", f"https://{user}127.0.0.1:1/x.git", said.append)
    assert "hunter2" not in " ".join(said)
