"""``[ssh]`` of another person's machine file: what it names is a regular file, and its host is a host."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path

import paramiko
import pytest
from paramiko.hostkeys import HostKeys

from damoos.errors import ConfigError, DamoosError
from damoos.machines import catalog, host_names, known_hosts, login
from damoos.machines.login import SshEndpoint, log_in
from tests.unit.cli.test_corpus import run

HOSTS = {
    "a@b": "has a user in it",
    "a." * 100 + "b" * 100: "is longer than 253 letters",
    "b" * 64: "1 to 63 letters",
    "\u0301" * 70: "is no host name",
    "-oProxyCommand=touch": "is no host name",
    "[::1": "is no IPv6 address",
    "h:22": "is no IPv6 address",
    "a b": "is no host name",
    "a..b": "is no host name",
    "a\nb": "is no host name",
    ".": "is no host name",
}


def machine_file(folder: Path, **ssh: str | int) -> Path:
    file = folder / "theirs.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in ssh.items()]
    file.write_text("\n".join(['description = "theirs"', "[ssh]", *lines, ""]))
    return file


@pytest.mark.parametrize("host", HOSTS, ids=ascii)
def test_what_is_no_host_is_refused_before_anything_connects(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = machine_file(tmp_path, host=host, port=9, known_hosts="/dev/null")
    code = run(["doctor", str(file)], monkeypatch)
    err = capsys.readouterr().err
    assert (code, err.count("\n")) == (2, 1), err
    assert "key 'ssh.host'" in err
    assert HOSTS[host] in err


@pytest.mark.parametrize(
    "host",
    ["localhost", "db-1.example.org", "a_b", "example.org.", "192.0.2.1", "::1", "fe80::1%eth0", "bücher.example"],
)
def test_hosts_that_are_some(host: str) -> None:
    assert host_names.objection(host) is None
    assert SshEndpoint(host=host).where == f"root@{host}:22"


@pytest.mark.parametrize("jump", ["y:99999", "y:0", "-x", "a..b", "u@" + "b" * 64])
def test_a_jump_host_is_one_too(jump: str, tmp_path: Path) -> None:
    file = machine_file(tmp_path, host="h", jump=jump)
    with pytest.raises(ConfigError, match=r"key 'ssh\.jump'"):
        catalog.machine(str(file))


def plant(kind: str, path: Path) -> None:
    """A file of a kind that is none of keys."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "large":
        with open(path, "wb") as out:
            out.truncate(5 << 20)
    elif kind == "binary":
        path.write_bytes(b"\x00\xff ssh-rsa x\n")


FILES = {
    "pipe": "not a regular file",
    "device": "not a regular file",
    "folder": "not a regular file",
    "large": "larger",
}


@pytest.mark.parametrize(
    ("word", "kind", "message"),
    [
        *[(word, *case) for word in ("known_hosts", "key") for case in FILES.items()],
        ("known_hosts", "binary", "not a text file"),
        ("known_hosts", "nothing", "No such file"),
        ("key", "nothing", "is not there or cannot be read"),
    ],
)
def test_files_of_keys_are_regular_and_bounded(word: str, kind: str, message: str, tmp_path: Path) -> None:
    """A pipe is not waited for; nothing listens at the port, so the file is read before anything connects."""
    plant(kind, tmp_path / "theirs")
    endpoint = SshEndpoint.model_validate(
        {"host": "127.0.0.1", "port": 9, "known_hosts": "/etc/hostname", word: str(tmp_path / "theirs")}
    )
    with pytest.raises(ConfigError, match=message) as refused:
        log_in(endpoint)
    assert f"{tmp_path}/theirs" in str(refused.value)


@pytest.fixture
def line(tmp_path: Path) -> str:
    """A key, as such a file has it behind the name of its host."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    return " ".join((tmp_path / "key.pub").read_text().split()[:2])


def test_keys_of_a_host_are_found_as_paramiko_finds_them(tmp_path: Path, line: str) -> None:
    file = tmp_path / "known"
    hashed = HostKeys.hash_host("[h]:9")
    file.write_bytes(
        b"\xff ssh-rsa x\n|1|x|y ssh-rsa AAAA\n# [h]:9\n\n[h]:9\n[h]:9 ssh-rsa\n[h]:9 ssh-ed25519 AAAA\n"
        b"[h]:9 ssh-ed25519 =\n"
        + f"h {line}\nother,[h]:9 {line}\n{hashed} {line} comment\n@revoked [h]:9 {line}\n".encode()
    )
    kept = paramiko.PKey.from_type_string("ssh-ed25519", base64.b64decode(line.split()[1]))
    assert list(known_hosts.keys_of(file, known_hosts.listed("h", 9))) == [kept, kept]
    assert list(known_hosts.keys_of(file, known_hosts.listed("h", 22))) == [kept]


def test_no_line_of_another_host_is_parsed(tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paramiko compares the names of each line with all lines before, which takes the square of their number."""
    file, parsed = tmp_path / "known", []
    file.write_text("".join(f"h{nth} {line}\n" for nth in range(1000)))
    monkeypatch.setattr(known_hosts, "_key", parsed.append)
    assert not list(known_hosts.keys_of(file, "h7"))
    assert parsed == [f"h7 {line}"]


def test_an_error_of_a_name_s_letters_is_one_line() -> None:
    said = login._told(UnicodeError("label too long"), SshEndpoint(host="h"))
    assert isinstance(said, DamoosError)
    assert str(said) == "root@h:22: no such host name"
