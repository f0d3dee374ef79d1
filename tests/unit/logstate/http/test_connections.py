"""Many clients at once that ask nothing, read nothing, or send without an end; probes meanwhile."""

from __future__ import annotations

import logging
import resource
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from logstate.contracts.serving import Serving
from logstate.http import connections as module
from logstate.http import deadlines
from logstate.http.connections import (
    BYTES_MAX,
    REQUESTS_LOGGER,
    RESERVE,
    Connections,
    OncePerMinute,
    connections_max,
)
from logstate.http.server import Server
from logstate.local_broker.certificates import LocalAuthority
from logstate.local_broker.secured import AUTHORITY, KEYS
from tests import patience

PAGE = b"x" * 30_000
ASKED = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
PROBE_S = 1.0


async def app(scope: Any, _receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
    """A page of 30 kB everywhere."""
    body = b"ok" if scope["path"] == "/live" else PAGE
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def served(serving: Serving) -> Iterator[Server]:
    server = Server(serving)
    server.start(app)
    patience.until(lambda: server._server is not None and server._server.started)
    try:
        yield server
    finally:
        server.stop()


def address_of(server: Server) -> tuple[str, int]:
    host, port = server.address.rpartition("/")[2].split(":")
    return host, int(port)


@pytest.fixture(params=[H11Protocol, HttpToolsProtocol], ids=["h11", "httptools"])
def _each_parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "AutoHTTPProtocol", request.param)


@pytest.fixture
def _quiet_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of other tests do not count."""
    for logger in (module._LOGGER, REQUESTS_LOGGER):
        monkeypatch.setattr(logger, "filters", [OncePerMinute()])


@pytest.fixture
def _many_files() -> Iterator[None]:
    """Both ends of 1,300 connections are in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard = before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (4_096 if hard < 0 else min(hard, 4_096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def probe(address: tuple[str, int], path: str = "/live") -> tuple[bytes, float]:
    """The first bytes of the answer, and how many seconds they took."""
    began_s = time.monotonic()
    with socket.create_connection(address, patience.PATIENCE_S) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        return client.recv(12), time.monotonic() - began_s


def opened(clients: ExitStack, address: tuple[str, int], sent: bytes, small: bool) -> socket.socket:
    client = clients.enter_context(socket.socket())
    if small:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
    client.settimeout(patience.PATIENCE_S)
    client.connect(address)
    with suppress(OSError):
        client.sendall(sent)
    return client


def rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.usefixtures("_each_parser", "_many_files", "_quiet_logs")
def test_probes_are_answered_while_others_ask_nothing_and_read_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """1,000 silent connections, 80 pipelines that are not read, 200 that send slowly."""
    serving = Serving("127.0.0.1:0", connections=256, timeout=timedelta(minutes=5))
    with served(serving) as server, ExitStack() as clients, caplog.at_level(logging.INFO):
        address, before = address_of(server), rss_bytes()
        for _ in range(80):
            opened(clients, address, ASKED * 90, small=True)
        slow = [opened(clients, address, b"GET / HTTP/1.1\r\n", small=True) for _ in range(200)]
        for _ in range(1_000):
            opened(clients, address, b"", small=False)
        times_s = []
        for _ in range(5):
            for client in slow:
                with suppress(OSError):
                    client.sendall(b"name: value\r\n")
            for path in ("/live", "/ready"):
                answer, took_s = probe(address, path)
                assert answer == b"HTTP/1.1 200"
                times_s.append(took_s)
        assert sorted(times_s)[len(times_s) // 2] < PROBE_S
        assert server.connections.count <= 256 + RESERVE
        assert server.connections.held < BYTES_MAX
        assert rss_bytes() - before < 100 * 1024 * 1024
        kinds = [(record.name, record.msg) for record in caplog.records if "http" in record.name]
        assert len(kinds) == len(set(kinds)) <= 3


@pytest.mark.usefixtures("_each_parser")
@pytest.mark.parametrize(
    ("first", "endless"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\n", b"name: " + b"x" * 60_000 + b"\r\n"),
        (b"GET / HTTP/1.1\r\n", b"a:b\r\n"),
        (ASKED * 90 + b"GET /live HTTP/1.1\r\nHost: h\r\n", b"n: " + b"x" * 60_000 + b"\r\n"),
        (ASKED * 90, ASKED),
        (
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"name: " + b"x" * 60_000 + b"\r\n",
        ),
        (b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n"),
    ],
    ids=["head", "headers", "head behind pipeline", "pipeline", "trailers", "small trailers"],
)
def test_what_a_client_sends_without_an_end_is_not_kept(first: bytes, endless: bytes) -> None:
    """The connection is closed after at most some MB, most of which the system's buffers hold."""
    with served(Serving("127.0.0.1:0", timeout=timedelta(minutes=5))) as server:
        address, most = address_of(server), 0
        with ExitStack() as clients:
            client = opened(clients, address, first, small=True)
            sent = 0
            with suppress(OSError):
                while sent < 64 << 20:
                    client.sendall(endless * max(1, 4_096 // len(endless)))
                    sent += max(len(endless), 4_096)
                    most = max(most, server.connections.held)
        assert sent < 64 << 20
        assert most <= 3 * deadlines.HEAD_BYTES_MAX
        patience.until(lambda: server.connections.count == 0)
        assert server.connections.held == 0


@pytest.mark.usefixtures("_each_parser")
def test_requests_behind_each_other_are_all_answered_in_order() -> None:
    with (
        served(Serving("127.0.0.1:0")) as server,
        socket.create_connection(address_of(server), patience.PATIENCE_S) as client,
    ):
        count = 100
        for _ in range(count):
            client.sendall(b"GET /live HTTP/1.1\r\nHost: h\r\n\r\n")
        found = b""
        while found.count(b"\r\n\r\nok") < count:
            part = client.recv(65_536)
            assert part
            found += part


@pytest.mark.usefixtures("_quiet_logs")
def test_a_handshake_that_does_not_end_gives_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HANDSHAKE_S", 0.05)
    LocalAuthority().write(tmp_path)
    keys = tmp_path / KEYS
    serving = Serving("127.0.0.1:0", certificate=keys, private_key=keys)
    with served(serving) as server, ExitStack() as clients:
        for _ in range(5):
            opened(clients, address_of(server), b"\x16", small=False)
        patience.until(lambda: server.connections.count == 0)
        monkeypatch.setattr(module, "HANDSHAKE_S", patience.PATIENCE_S)
        context = ssl.create_default_context(cafile=str(tmp_path / AUTHORITY))
        with (
            socket.create_connection(address_of(server), patience.PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as client,
        ):
            client.sendall(b"GET /live HTTP/1.1\r\nHost: h\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.1 200"


def test_a_line_of_each_kind_passes_once_a_minute_and_tells_how_many_did_not() -> None:
    now = [0.0]
    quiet = OncePerMinute(lambda: now[0])

    def line(message: str, *given: object) -> str | None:
        record = logging.makeLogRecord({"msg": message, "args": given})
        return record.getMessage() if quiet.filter(record) else None

    assert [line("%s came", n) for n in range(3)] == ["0 came", None, None]
    assert line("another") == "another"
    now[0] = 60.0
    assert line("%s came", 3) == "3 came (2 more lines like this one were dropped)"


def test_connections_take_a_quarter_of_the_files_at_most(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, 4_096))
    with caplog.at_level(logging.INFO):
        assert connections_max(100) == 100
        assert connections_max(500) == 256
    assert "at most 256 HTTP connections at a time, not 500" in caplog.text


def test_who_holds_most_is_closed_where_all_hold_too_much() -> None:
    closed: list[str] = []
    counted = Connections(10, bytes_max=100)

    class One:
        state, held, made_s, timer = "fresh", 0, 0.0, None

        def __init__(self, name: str, number: int) -> None:
            self._number = number
            self.abort = lambda: closed.append(name)
            counted._open[number] = self  # type: ignore[assignment]

        def fileno(self) -> int:
            return self._number

    small, large = One("small", 1), One("large", 2)
    counted.record_state(large, "busy", 70)  # type: ignore[arg-type]
    counted.record_state(small, "busy", 40)  # type: ignore[arg-type]
    assert closed == ["large"]
    assert counted.held == 40
