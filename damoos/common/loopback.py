"""HTTP for the people of this computer: a server on loopback that answers no page of another computer."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

HOST = "127.0.0.1"
# What a program on this computer, or behind a forwarded port, calls it.
NAMES = (HOST, "localhost")

Start = Callable[..., Any]
App = Callable[[dict[str, Any], Start], Iterable[bytes]]


def is_for_here(environ: dict[str, Any]) -> bool:
    """Whether a request names this computer, and comes from no page of another one.

    A browser on this computer may show a page whose name is made to lead here (DNS rebinding). What that page asks for
    has its name as the host.

    Parameters
    ----------
    environ : dict
        Of WSGI.
    """
    origin = environ.get("HTTP_ORIGIN")
    host: str = environ.get("HTTP_HOST", "")
    return _name(host) in NAMES and (not origin or _name_of_origin(origin) in NAMES)


def _name(host: str) -> str:
    return host.rpartition(":")[0] if ":" in host else host


def _name_of_origin(origin: str) -> str | None:
    try:
        return urlsplit(origin).hostname
    except ValueError:
        return None


# As `socketserver` hands it on.
_Request = socket.socket | tuple[bytes, socket.socket]


class Server(ThreadingMixIn, WSGIServer):
    """A browser keeps connections open that it does not use yet, so that each connection has a thread.

    Every user of the computer can connect. An answer that is read slowly stays in memory, so only some connections are
    served at once; others wait in the queue of the kernel until one of these ends, which takes `connection_s` at most.
    """

    daemon_threads = True
    request_queue_size = 128
    most_connections = 16
    # Long enough for a large file through a forwarded port.
    connection_s = 60.0

    def __init__(self, address: tuple[str, int], handler: type[WSGIRequestHandler]) -> None:
        self._places = threading.Semaphore(self.most_connections)
        self._is_ending = False
        super().__init__(address, handler)

    def process_request(self, request: _Request, client_address: object) -> None:
        """Serve a connection in a thread as soon as there is a place for it."""
        self._places.acquire()
        if self._is_ending:
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._places.release()
            raise

    def process_request_thread(self, request: _Request, client_address: object) -> None:
        """Serve a connection, and cut it off when its time is over."""
        end = threading.Timer(self.connection_s, _cut_off, (request,))
        end.daemon = True
        try:
            end.start()
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._places.release()

    def shutdown(self) -> None:
        """End `serve_forever`, which may be waiting for a place."""
        self._is_ending = True
        self._places.release()
        super().shutdown()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell an error of damoos's; a client that has changed its mind, or says nothing, is none."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


def _cut_off(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended by itself
        connection.shutdown(socket.SHUT_RDWR)


class Handler(WSGIRequestHandler):
    """Answers a request; whoever connects and asks for nothing in this time is let go."""

    timeout = 30.0  # seconds, see `socketserver.StreamRequestHandler`

    def log_message(self, format: str, *args: Any) -> None:
        """Every request is not news."""
