"""optuna-dashboard on a study store, for the people of this computer: loopback only, read-only unless asked."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from damoos.common.loopback import HOST, App, Handler, Server, Start, is_for_here
from damoos.dispatch import cluster
from damoos.errors import ConfigError, UnsupportedError

READING = ("GET", "HEAD")
# A report is shown as a page of its own, and has no say in the dashboard.
_FILE_HEADERS = [("Content-Security-Policy", "sandbox allow-scripts"), ("X-Content-Type-Options", "nosniff")]


def serve(results: Path, storage: str | None, port: int, allow_writes: bool, say: Callable[[str], None]) -> None:
    """Serve the dashboard until it is interrupted.

    Parameters
    ----------
    results : Path
    storage : str or None
        As of `damoos.store.studies.Store`.
    port : int
        0 for any that is free.
    allow_writes : bool
        Whether notes may be written, studies renamed and deleted; files of studies may not, either way.
    say : callable
        Told where it is, once it can be asked.

    Raises
    ------
    UnsupportedError : optuna-dashboard is not installed
    ConfigError : there is no store, or the port is taken
    """
    if find_spec("optuna_dashboard") is None:
        raise UnsupportedError("optuna-dashboard is not installed; pip install 'damoos[dashboard]'")
    with _bound(port) as server:
        server.set_app(_app(results, storage, allow_writes))
        say(
            f"http://{HOST}:{server.server_port}/ ({'writes allowed' if allow_writes else 'read-only'});"
            " press Ctrl-C to end it"
        )
        for line in beside():
            say(line)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("ended")


def _app(results: Path, storage: str | None, allow_writes: bool) -> App:
    from optuna_dashboard import wsgi

    from damoos.dashboard.storage import SharedStorage

    shared = SharedStorage(results, storage, allow_writes)
    return gate(wsgi(shared, artifact_store=shared.files), allow_writes)


def gate(app: App, allow_writes: bool) -> App:
    """What the dashboard is asked, without what it is not to be asked."""

    def asked(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        if refusal := _refusal(environ, method, path, allow_writes):
            start("403 Forbidden", [("Content-Type", "application/json")])
            return [b'{"reason": "%s"}' % refusal.encode()]
        return app(environ, _as_file(start) if path.startswith("/artifacts/") else start)

    return asked


def _refusal(environ: dict[str, Any], method: str, path: str, allow_writes: bool) -> str:
    if not is_for_here(environ):
        return "this dashboard is for the computer that it runs on"
    if method in READING:
        return ""
    if not allow_writes:
        return "read-only; damoos dashboard --allow-writes"
    return "files of studies are not changed here" if path.startswith("/api/artifacts/") else ""


def _as_file(start: Start) -> Start:
    def started(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
        kept = [header for header in headers if header[0].lower() != "access-control-allow-origin"]
        return start(status, kept + _FILE_HEADERS, *rest)

    return started


def beside() -> list[str]:
    """Where Ray's own dashboard is, if a cluster of damoos's runs."""
    running = cluster.state()
    if running is None:
        return []
    about = f"Ray's cluster at {running.address} ({', '.join(running.machines)})"
    url = running.dashboard
    return [f"{about}: {url}" if url else f"{about} has no dashboard: it was started without --dashboard"]


def _bound(port: int) -> Server:
    try:
        return Server((HOST, port), Handler)
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise ConfigError(f"port {port} is taken; choose another one with --port, or 0 for any free port") from None
        raise ConfigError(f"port {port}: {getattr(error, 'strerror', error)}") from None
