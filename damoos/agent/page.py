"""What a server answers, in a bounded time and up to a bounded size: it may be another program than the one asked."""

from __future__ import annotations

import contextlib
import socket
import threading
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.request import (
    AbstractHTTPHandler,
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPRedirectHandler,
    OpenerDirector,
    Request,
    UnknownHandler,
)  # fmt: skip

_CHUNK_BYTES = 1 << 20
_BESIDE = (UnknownHandler, HTTPRedirectHandler, HTTPDefaultErrorHandler, HTTPErrorProcessor)


def page(url: str, limit_s: float, most_bytes: int) -> bytes:
    """Ask for a page.

    Raises
    ------
    OSError : nobody answers, or an error
    ValueError : the answer is none, is longer, or has no end in time
    """
    line = _Line()
    opener = OpenerDirector()  # without what the library would add: FTP, files, proxies of the environment
    for handler in (_Web(line), *(kind() for kind in _BESIDE)):
        opener.add_handler(handler)
    timer = threading.Timer(limit_s, line.cut)
    timer.daemon = True
    timer.start()
    found = b""
    try:
        with opener.open(url, timeout=limit_s) as answer:
            while part := answer.read1(_CHUNK_BYTES):
                found += part
                if len(found) > most_bytes:
                    raise ValueError(f"the page is larger than {most_bytes >> 20} MiB")
    except (OSError, HTTPException) as error:
        if not line.is_cut:
            raise error if isinstance(error, OSError) else ValueError(str(error)) from None
    finally:
        timer.cancel()
        line.close()
    if line.is_cut:
        raise ValueError(f"the page took longer than {limit_s:g} s")
    return found


class _Line:
    """The connections of one request, which can be cut. A timeout of a socket begins anew with each byte."""

    def __init__(self) -> None:
        self.is_cut = False
        self._ends: list[socket.socket] = []

    def connect(self, *where: Any, **how: Any) -> socket.socket:
        """Connect as `socket.create_connection` does."""
        end = socket.create_connection(*where, **how)
        self._ends.append(end.dup())  # TLS takes the first one for itself
        if self.is_cut:
            self.cut()
        return end

    def cut(self) -> None:
        """Have whoever reads from it find its end."""
        self.is_cut = True
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of it."""
        for end in self._ends:
            end.close()


def _made(kind: type[HTTPConnection], line: _Line, host: str, **options: Any) -> HTTPConnection:
    connection = kind(host, **options)
    connection._create_connection = line.connect  # type: ignore[attr-defined]
    return connection


class _Web(AbstractHTTPHandler):
    """Opens pages over connections that can be cut."""

    http_request = https_request = AbstractHTTPHandler.do_request_

    def __init__(self, line: _Line) -> None:
        super().__init__()
        self._line = line

    def http_open(self, req: Request) -> HTTPResponse:
        """Ask for a page without TLS."""
        return self.do_open(partial(_made, HTTPConnection, self._line), req)  # type: ignore[arg-type]

    def https_open(self, req: Request) -> HTTPResponse:
        """Ask for a page over TLS."""
        try:
            from http.client import HTTPSConnection
        except ImportError:  # as in Debian's python3-minimal
            raise OSError("this Python has no TLS") from None
        return self.do_open(partial(_made, HTTPSConnection, self._line), req)  # type: ignore[arg-type]
