"""Guests of the catalogue, and the machines' contract on real ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from damoos.machines.base import Machine
from damoos.machines.catalog import machine as named
from damoos.machines.ssh import SshMachine
from damoos.testing.contracts import MachineContract
from tests.conftest import open_guest


class TestPaperGuest(MachineContract):
    """i3's guest, a sixteenth of the paper's."""

    @pytest.fixture(scope="class")
    @classmethod
    def machine(cls, guest_image: None) -> Machine:
        return named("i3")

    def test_its_size_is_the_papers_scaled(self, session) -> None:
        assert session.facts["vcpus"] == 1
        assert 0.9 * (2 << 30) < session.facts["mem_bytes"] <= 2 << 30


class TestSsh(MachineContract):
    """Any host by SSH; here it is a guest."""

    @pytest.fixture(scope="class")
    @classmethod
    def machine(cls, guest_image: None) -> Iterator[Machine]:
        guest = open_guest()
        guest.agent.close()
        yield SshMachine("there", "a host", guest.endpoint)
        guest.close()
