"""Which host is this one is told by its kernel, not by what a machine file calls it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import damoos
from damoos.agent import proc
from damoos.errors import ConfigError
from damoos.machines import catalog
from damoos.machines.login import SshEndpoint
from damoos.service import keeper
from damoos.testing.fake import FakeMachine
from tests.ssh_server import ssh_server


def machine_file(folder: Path, endpoint: SshEndpoint) -> str:
    file = folder / "lab.toml"
    file.write_text(
        f'description = "a host"\n[ssh]\nhost = "{endpoint.host}"\nport = {endpoint.port}\nkey = "{endpoint.key}"\n'
        f'known_hosts = "{endpoint.known_hosts}"\npython = "{sys.executable}"\n'
    )
    return str(file)


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Machines on which something was put into service."""
    machines: list[str] = []
    monkeypatch.setattr(keeper, "apply", lambda spec: machines.append(spec["machine"]))
    return machines


def study_on(machine: str, results: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "machine", lambda name, kernel=None: FakeMachine(noise=0.001))
        return damoos.tune(command="true", machine=machine, results=results, trials=2, seed=1).name


def test_this_host_by_ssh_must_be_named(tmp_path: Path, applied: list[str]) -> None:
    """The study's own machine is an address of this host: nobody has said that the policy may go here."""
    with ssh_server(tmp_path) as endpoint:
        machine = machine_file(tmp_path, endpoint)
        words: dict[str, Any] = {"arm": "manual", "results": tmp_path / "results"}
        study = study_on(machine, tmp_path / "results")
        with pytest.raises(ConfigError) as refused:
            damoos.apply(study, **words)
        assert str(refused.value) == (
            f"the policy of study '{study}' would go on this host, which is machine '{machine}', on true; give"
            f" machine='{machine}' if it is to, or the name of another machine"
        )
        assert applied == []
        damoos.apply(study, machine=machine, **words)
        assert applied == [machine]


def test_a_guest_behind_a_port_of_this_host_is_another_host(tmp_path: Path, applied: list[str]) -> None:
    def of_another_kernel(output: bytes) -> bytes:
        return output.replace(proc.boot_id().encode(), b"6f0e7f1c-0000-4000-8000-000000000000")

    with ssh_server(tmp_path, printed=of_another_kernel) as endpoint:
        machine = machine_file(tmp_path, endpoint)
        damoos.apply(study_on(machine, tmp_path / "results"), arm="manual", results=tmp_path / "results")
    assert applied == [machine]
