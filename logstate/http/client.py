"""Send requests to other instances: HTTP of the standard library, with connections that are reused.

A general client (httpx) took two thirds of the CPU time of a request for a key.
"""

from __future__ import annotations

import select
import ssl
import threading
import time
from collections import defaultdict
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from math import inf
from typing import Any
from urllib.parse import urlsplit

import msgspec

from logstate.contracts.errors import UNDECODABLE, StoreAccessError, StoreUnavailableError
from logstate.contracts.serving import Serving
from logstate.http.query_handler import MisdirectedError
from logstate.queries.requests import CursorGoneError, ReadReply, ReadRequest

READ_PATH = "/instances/read"
#: maximum size of a page of rows
REPLY_BYTES_MAX = 64 * 1024 * 1024
#: a socket accepts no time-out above 24 days
_ANSWER_LIMIT_S = 86_400.0
#: a time-out of 0 would mean not to wait
_LEAST_S = 0.001
#: servers close idle connections, the first of them after 5 s
_IDLE_S = 4.0

_decode = msgspec.msgpack.Decoder(ReadReply).decode


class _WholeRequests:
    """Sends the head of a request together with its body: the receiver wakes up once."""

    _head = b""

    def send(self, data: Any) -> None:
        """Hold the first of two parts until the second one; every request has a body."""
        if not self._head:
            self._head = data
            return
        head, self._head = self._head, b""
        super().send(head + data)  # type: ignore[misc]


class _HttpConnection(_WholeRequests, HTTPConnection):
    idle_since_s = 0.0


class _HttpsConnection(_WholeRequests, HTTPSConnection):
    idle_since_s = 0.0


class Client:
    """Sends requests; usable from any thread."""

    def __init__(self, serving: Serving) -> None:
        self._authority = serving.authority
        self._needs_tls = bool(serving.token) and serving.is_secured
        self._headers = {"Content-Type": "application/msgpack"}
        if serving.token:
            self._headers["Authorization"] = f"Bearer {serving.token}"
        #: idle connections by host, the most recently used one last; it is taken first
        self._idle: defaultdict[str, list[_HttpConnection | _HttpsConnection]] = defaultdict(list)
        self._lock = threading.Lock()

    def __call__(self, host: str, request: ReadRequest, timeout_s: float) -> ReadReply:
        if self._needs_tls and not host.startswith("https://"):
            raise StoreUnavailableError(
                f"no request was sent to {host}: this instance uses TLS, and does not send its"
                " token without it. Give the other instance certificate= of Serving, or"
                " advertised= with https"
            )
        body = msgspec.msgpack.encode(request)
        try:
            status, content = self._answer(host, body, min(timeout_s, _ANSWER_LIMIT_S))
        except (OSError, HTTPException, ValueError) as exc:
            raise StoreUnavailableError(
                f"{host} does not respond: {type(exc).__name__}: {exc}"
            ) from exc
        if status != 200:
            raise _refusal(host, status, content)
        try:
            return _decode(content)
        except UNDECODABLE as exc:
            raise StoreUnavailableError(
                f"{host} sends an invalid response ({exc}): another program has its address"
            ) from exc

    def close(self) -> None:
        """Close the idle connections."""
        for connection in self._idle_since(inf):
            connection.close()

    # ------------------------------------------------------------------ connections

    def _answer(self, host: str, body: bytes, timeout_s: float) -> tuple[int, bytes]:
        end_s = time.monotonic() + timeout_s
        connection = self._idle_connection(host, timeout_s) or self._open_connection(
            host, timeout_s
        )
        try:
            path = urlsplit(host).path + READ_PATH
            connection.request("POST", path, body, self._headers)
            connection.sock.settimeout(max(_LEAST_S, end_s - time.monotonic()))
            with connection.getresponse() as response:
                content = _content(host, response)
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None:  # otherwise the server closed it
            connection.idle_since_s = time.monotonic()
            with self._lock:
                self._idle[host].append(connection)
        return response.status, content

    def _idle_connection(
        self, host: str, timeout_s: float
    ) -> _HttpConnection | _HttpsConnection | None:
        for old in self._idle_since(time.monotonic() - _IDLE_S):
            old.close()
        while True:
            with self._lock:
                connection = self._idle[host].pop() if self._idle[host] else None
            if connection is None:
                return None
            if _is_open(connection):
                connection.sock.settimeout(timeout_s)
                return connection
            connection.close()

    def _idle_since(self, at_s: float) -> list[_HttpConnection | _HttpsConnection]:
        """Remove and return the connections of every host that were not used since then."""
        found = []
        with self._lock:
            for idle in self._idle.values():
                while idle and idle[0].idle_since_s <= at_s:
                    found.append(idle.pop(0))
        return found

    def _open_connection(self, host: str, timeout_s: float) -> _HttpConnection | _HttpsConnection:
        parts = urlsplit(host)
        if parts.scheme == "https":
            trusted = self._ssl_context
            return _HttpsConnection(
                parts.hostname or "", parts.port, timeout=timeout_s, context=trusted
            )
        return _HttpConnection(parts.hostname or "", parts.port, timeout=timeout_s)

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        authority = self._authority
        return ssl.create_default_context(cafile=None if authority is None else str(authority))


def _is_open(connection: HTTPConnection) -> bool:
    """Return whether it is open: an idle connection only becomes readable when it is closed."""
    readable = select.poll()
    readable.register(connection.sock, select.POLLIN)
    return not readable.poll(0)


def _content(host: str, response: HTTPResponse) -> bytes:
    content = response.read(REPLY_BYTES_MAX + 1)
    if len(content) > REPLY_BYTES_MAX:
        raise StoreAccessError(
            f"{host} sends a page of more than {REPLY_BYTES_MAX} bytes; lower its page_rows"
        )
    if response.length:  # reading up to a size does not detect a body that ends early
        raise IncompleteRead(content, response.length)
    return content


def _refusal(host: str, status: int, content: bytes) -> Exception:
    try:
        reason = str(msgspec.json.decode(content)["error"])
    except (*UNDECODABLE, KeyError, TypeError):
        reason = content[:200].decode("utf-8", "replace")
    said = f"{host} responds {status}: {reason}"
    if status == 421:
        return MisdirectedError(said)
    if status == 410:
        return CursorGoneError(said)
    if status in (429, 500, 502, 503, 504):
        return StoreUnavailableError(said)
    if status == 401:
        said += ". Instances need the same Serving(token=...)"
    return StoreAccessError(said)
