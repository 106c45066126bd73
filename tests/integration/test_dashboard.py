"""The dashboard as a real server on a real store: what it shows, what it refuses, and that it changes nothing."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from damoos import api
from damoos.dashboard import serve
from damoos.errors import ConfigError, UnsupportedError
from damoos.machines import catalog
from damoos.testing.fake import FakeMachine
from tests.conftest import DAMOOS

NAME = "true-fake-1"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with a finished study, and one that belongs to a sweep with a report."""
    results = tmp_path_factory.mktemp("store") / "results"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "machine", lambda name, kernel=None: FakeMachine())
        api.tune(command="true", machine="fake", trials=3, repeats=2, results=results)
        api.sweep(["synthetic/idle"], ["fake"], trials=2, repeats=2, candidates=1, results=results)
    (results / "sweep-1" / "report.html").write_text("<p>a report</p>")
    (results / NAME / "link.json").symlink_to("/etc/passwd")
    return results


def ask(port: int, path: str, method: str = "GET", body: object = None, **headers: str) -> tuple[int, bytes, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    sent = None if body is None else json.dumps(body)
    connection.request(method, path, sent, {"Content-Type": "application/json", "Accept-Encoding": "", **headers})
    answer = connection.getresponse()
    return answer.status, answer.read(), answer.headers


def started(results: Path, *words: str) -> tuple[subprocess.Popen[str], int]:
    server = subprocess.Popen(
        [DAMOOS, "dashboard", "--port", "0", "--results", results, *words], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout
    line = server.stdout.readline()
    assert line.startswith("dashboard: http://127.0.0.1:")
    return server, int(line.split(":")[3].split("/")[0])


@pytest.fixture(scope="module")
def port(store: Path) -> Iterator[int]:
    server, port = started(store)
    yield port
    server.terminate()
    assert server.wait(30) == 0


def content(results: Path) -> dict[str, bytes]:
    """Everything in a results folder, the database as what is stored in it."""
    found = {str(one.relative_to(results)): one.read_bytes() for one in results.rglob("*/*") if one.is_file()}
    with sqlite3.connect(results / "damoos.sqlite") as database:
        return {**found, "store": "\n".join(database.iterdump()).encode()}


def study_of(port: int, name: str) -> dict[str, Any]:
    found = json.loads(ask(port, "/api/studies")[1])["study_summaries"]
    (number,) = [one["study_id"] for one in found if one["study_name"] == name]
    return {"id": number, **json.loads(ask(port, f"/api/studies/{number}")[1])}


def test_it_shows_the_studies(store: Path, port: int) -> None:
    stored = api.load_study(NAME, results=store)
    study = study_of(port, NAME)
    assert len(study["trials"]) == 3
    scores = [trial["values"][0] if trial["state"] == "Complete" else None for trial in study["trials"]]
    assert scores == pytest.approx([one.score.value for one in stored.trials], nan_ok=True)
    assert stored.result["verdict_text"] in study["note"]["body"]
    assert stored.best["scheme"] in study["note"]["body"]
    status, page, _ = ask(port, "/dashboard")
    assert status == 200
    assert b"<html" in page


def test_files_are_delivered_byte_for_byte(store: Path, port: int) -> None:
    study = study_of(port, NAME)
    files = [one for one in (store / NAME).iterdir() if not one.name.startswith(".") and not one.is_symlink()]
    assert sorted(one["filename"] for one in study["artifacts"]) == sorted(one.name for one in files)
    for one in study["artifacts"]:
        status, found, headers = ask(port, f"/artifacts/{study['id']}/{one['artifact_id']}")
        assert status == 200
        assert found == (store / NAME / one["filename"]).read_bytes()
        assert headers["Content-Type"] == one["mimetype"]
        assert headers["Access-Control-Allow-Origin"] is None  # no page of somebody else's reads it
        assert "sandbox" in headers["Content-Security-Policy"]
    of_sweep = study_of(port, "sweep-1-synthetic-idle-fake")
    (report,) = [one for one in of_sweep["artifacts"] if one["filename"] == "sweep-1/report.html"]
    assert ask(port, f"/artifacts/{of_sweep['id']}/{report['artifact_id']}")[1] == b"<p>a report</p>"


@pytest.mark.parametrize(
    "path",
    [
        "/artifacts/1/../../damoos.sqlite",
        "/artifacts/1/%2e%2e%2f%2e%2e%2fdamoos.sqlite",
        "/artifacts/1/..%2f.lock",
        "/artifacts/1/00000000-0000-0000-0000-000000000000",
        "/artifacts/99/00000000-0000-0000-0000-000000000000",
        "/static/../../../../../../etc/passwd",
        "/static/%2e%2e/_app.py",
    ],
)
def test_no_path_leads_out(port: int, path: str) -> None:
    status, found, _ = ask(port, path)
    assert status in (403, 404, 500)
    assert b"SQLite" not in found
    assert b"root:" not in found
    assert b"import" not in found


def test_another_studys_file_is_not_this_ones(port: int) -> None:
    study, other = study_of(port, NAME), study_of(port, "sweep-1-synthetic-idle-fake")
    for one in other["artifacts"]:
        assert ask(port, f"/artifacts/{study['id']}/{one['artifact_id']}")[0] == 404


WRITES = [
    ("POST", "/api/studies", {"study_name": "x", "directions": ["minimize"]}),
    ("DELETE", "/api/studies/1", {}),
    ("POST", "/api/studies/1/rename", {"study_name": "x"}),
    ("PUT", "/api/studies/1/note", {"version": 1, "body": "x"}),
    ("POST", "/api/trials/1/user-attrs", {"user_attrs": {"a": 1}}),
    ("POST", "/api/trials/1/tell", {"state": "FAIL"}),
    ("POST", "/api/artifacts/1", {"file": "data:text/plain;base64,eA=="}),
    ("PATCH", "/api/studies/1", {}),
    ("POST", "/incompatible-rdb-schema", {}),
]


def test_writing_is_refused_and_changes_nothing(store: Path, port: int) -> None:
    before = content(store)
    for method, path, body in WRITES:
        status, answer, _ = ask(port, path, method, body)
        assert status == 403, (method, path)
        assert json.loads(answer)["reason"] == "read-only; damoos dashboard --allow-writes"
    assert content(store) == before


def test_the_database_refuses_too(store: Path) -> None:
    import optuna

    from damoos.dashboard.storage import SharedStorage

    shared = SharedStorage(store, None, allow_writes=False)
    before = content(store)
    for write in (
        lambda: shared.create_new_study([optuna.study.StudyDirection.MINIMIZE], "x"),
        lambda: shared.delete_study(1),
        lambda: shared.set_study_user_attr(1, "a", 1),
    ):
        with pytest.raises(optuna.exceptions.StorageInternalError):
            write()
    assert content(store) == before


@pytest.mark.parametrize(
    "headers",
    [{"Host": "damoos.example"}, {"Host": "127.0.0.1.example:80"}, {"Host": ""}, {"Origin": "http://damoos.example"}],
)
def test_pages_from_elsewhere_are_refused(port: int, headers: dict[str, str]) -> None:
    status, answer, _ = ask(port, "/api/studies", **headers)
    assert status == 403
    assert json.loads(answer)["reason"] == "this dashboard is for the computer that it runs on"


def test_a_forwarded_port_may_ask(port: int) -> None:
    assert ask(port, "/api/studies", Host="localhost:9000", Origin="http://localhost:9000")[0] == 200


def test_it_is_on_one_address_of_loopback_only(port: int) -> None:
    with socket.socket() as other, pytest.raises(ConnectionRefusedError):
        other.connect(("127.0.0.2", port))


def test_with_leave_notes_are_written_and_studies_deleted_but_no_files(store: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(store, results, symlinks=True)
    server, port = started(results, "--allow-writes")
    try:
        number = study_of(port, NAME)["id"]
        assert ask(port, f"/api/studies/{number}/note", "PUT", {"version": 1, "body": "mine"})[0] == 204
        assert study_of(port, NAME)["note"] == {"version": 1, "body": "mine"}
        file = study_of(port, NAME)["artifacts"][0]["artifact_id"]
        assert ask(port, f"/api/artifacts/{number}/{file}", "DELETE")[0] == 403
        assert ask(port, f"/api/artifacts/{number}", "POST", {"file": "data:text/plain;base64,eA=="})[0] == 403
        assert ask(port, f"/api/studies/{number}", "DELETE", {})[0] == 204
        assert [one["study_id"] for one in json.loads(ask(port, "/api/studies")[1])["study_summaries"]] != [number]
        assert (results / NAME / "figure.png").exists()
        assert ask(port, f"/api/studies/{number}", "DELETE", {}, Origin="http://damoos.example")[0] == 403
    finally:
        server.send_signal(signal.SIGTERM)  # as Ctrl-C, which a background job would ignore
    assert server.wait(30) == 0
    assert server.stdout
    assert server.stdout.read() == "dashboard: ended\n"


def refused(results: Path, storage: str | None = None, port: int = 0) -> str:
    with pytest.raises(ConfigError) as refusal:
        serve(results, storage, port, False, print)
    return str(refusal.value)


def test_wrong_words(store: Path, port: int, tmp_path: Path) -> None:
    assert refused(store, port=port) == f"port {port} is taken; choose another one with --port, or 0 for any free port"
    assert refused(store, port=99999).startswith("port 99999: ")
    assert refused(tmp_path / "none").startswith(f"there is no study store {tmp_path}/none/damoos.sqlite; ")
    assert refused(tmp_path, f"sqlite:///{tmp_path}/no.sqlite").startswith("there is no study store")
    assert list(tmp_path.iterdir()) == []
    assert "nothing" in refused(tmp_path, "nothing://x")
    assert refused(tmp_path, "nonsense").startswith("'nonsense' is not a storage URL")


def test_without_optuna_dashboard_it_says_what_to_install(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("damoos.dashboard.find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"pip install 'damoos\[dashboard\]'"):
        serve(store, None, 0, False, print)
