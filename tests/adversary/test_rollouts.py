"""The file of a rollout, as another user plants it: it leads damoos to no Ray cluster of that user's."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from damoos.cli import app
from damoos.rollouts.rollout import Rollout
from damoos.testing.rollout_fleet import fake_plan


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Where the attacker waits."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        found.setblocking(False)
        yield found


@pytest.mark.parametrize("words", [["resume"], ["stop"], ["status"], ["report", "html"]], ids=lambda words: words[0])
def test_a_rollout_leads_to_no_cluster(
    tmp_path: Path, listener: socket.socket, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    file = Rollout.create(tmp_path, fake_plan(2, [1, 2], ray=address)).artifacts.path / "rollout.json"
    content = json.loads(file.read_text())
    content["plan"]["insecure_cluster"] = True
    file.write_text(json.dumps(content))
    done = CliRunner().invoke(app, [*words, "rollout-1", "--results", str(tmp_path)])
    with pytest.raises(BlockingIOError):
        listener.accept()
    if words != ["status"]:  # which asks no node
        assert f"begun on the Ray cluster at {address}, says its file" in str(done.exception)
