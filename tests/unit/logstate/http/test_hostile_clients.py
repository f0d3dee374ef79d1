"""Clients that ask and do not listen, hold connections, take all threads, or write odd keys."""

from __future__ import annotations

import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from logstate.app.application import Application
from logstate.contracts.serving import Serving
from logstate.http import asgi, deadlines
from logstate.http.server import Server
from logstate.queries.requests import CURSORS_MAX, ReadRequest
from logstate.testing import FakeCluster
from tests import patience
from tests.unhurried import no_silence  # noqa: F401  for this module
from tests.unit.logstate.instances import (
    caught_up,
    cluster_with,
    instance,
    send,
    shared,
    until,
)

LONG = timedelta(seconds=patience.PATIENCE_S)


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_with()


@pytest.fixture
def app(cluster: FakeCluster, tmp_path: Path) -> Iterator[Application]:
    serve = Serving("127.0.0.1:0", streams=1, timeout=LONG)
    with instance(cluster, tmp_path, serve=serve) as app:
        until(app, shared(app, 1))
        caught_up(app, cluster)
        yield app


@pytest.fixture
def http(app: Application) -> Iterator[httpx.Client]:
    host = app.all_instances()[0].host
    with httpx.Client(base_url=host, trust_env=False, timeout=patience.PATIENCE_S) as client:
        yield client


@pytest.mark.parametrize(
    "key", ["a/b", "/", "//", "changes/", "%", "a b+c", "\u00e4\u2603", "x\x00y"]
)
def test_a_key_may_have_any_character(http: httpx.Client, cluster: FakeCluster, key: str) -> None:
    send(cluster, key)
    path = f"/stores/counts/{quote(key, safe='')}"
    answer = patience.until(lambda: (got := http.get(path)).status_code == 200 and got)
    assert answer.json()["row"]["value"] == 1


def test_first_pages_that_nobody_continues_are_in_nobodys_way(http: httpx.Client) -> None:
    """The one that waits longest is given up for another."""

    def first_page() -> str:
        last = json.loads(http.get("/stores/counts?limit=1").text.splitlines()[-1])
        return str(last["continue"])

    oldest, *_, newest = [first_page() for _ in range(CURSORS_MAX + 1)]
    gone = http.get(f"/stores/counts?continue={oldest}")
    assert gone.status_code == 410
    assert f"{CURSORS_MAX} newer scans were started" in gone.json()["error"]
    assert http.get(f"/stores/counts?continue={newest}").status_code == 200


@pytest.mark.parametrize("path", ["/stores", "/stores/counts", "/stores/counts/k1", "/status"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "rebound", "127.0.0.1.evil"])
def test_a_request_that_names_another_host_gets_nothing(
    http: httpx.Client, path: str, host: str
) -> None:
    """The page of another site, whose name leads to this machine now (DNS rebinding)."""
    answer = http.get(path, headers={"Host": host})
    assert answer.status_code == 421
    assert "row" not in answer.json()
    assert "Serving(hosts=)" in answer.json()["error"]


def test_a_request_that_names_this_machine_is_answered(http: httpx.Client) -> None:
    for host in ("localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.2:1", "[::1]:80", "localhost."):
        assert http.get("/stores", headers={"Host": host}).status_code == 200
    for path in ("/live", "/ready", "/"):  # hold no data
        assert http.get(path, headers={"Host": "evil.example"}).status_code == 200


def test_streams_and_reads_of_instances_look_at_the_host_as_well(
    app: Application, http: httpx.Client
) -> None:
    named = {"Host": "evil.example"}
    assert http.get("/stores/counts/changes", headers=named).status_code == 421
    instance = app.all_instances()[0].instance
    request = msgspec.msgpack.encode(ReadRequest(instance, "counts", 0, "get", (b"k3",)))
    assert http.post("/instances/read", content=request, headers=named).status_code == 421


def test_names_of_a_proxy_can_be_given_and_with_a_token_any_will_do() -> None:
    assert Serving("127.0.0.1:0", hosts=("Shop.example",)).named_hosts() == {
        "localhost",
        "shop.example",
    }
    assert Serving("127.0.0.1:0", advertised="http://shop:1").named_hosts() == {"localhost", "shop"}
    assert not Serving("127.0.0.1:0", token="t").named_hosts()
    assert not Serving("10.0.0.7:1", token="t").named_hosts()
    assert not Serving(advertised="http://shop:1").named_hosts()
    wrong: Any = "shop"
    assert list(Serving("127.0.0.1:0", hosts=wrong).problems()) == [
        "hosts of Serving must be a tuple of names; got 'shop' (str)"
    ]


def test_who_waits_for_others_keeps_nobody_from_an_answer(
    app: Application, http: httpx.Client
) -> None:
    """So two instances that ask each other do not hold each other up, and health is told."""
    found, instance = app.metadata_for_key("counts", "k3"), app.all_instances()[0].instance
    waiting = f"{http.base_url}/stores/counts/k3?at_least=in-{found.partition}:9999"
    server = app._presence._server._server  # type: ignore[union-attr]
    with ThreadPoolExecutor(asgi._ASKING + 5) as pool:
        answers = [
            pool.submit(httpx.get, waiting, trust_env=False, timeout=patience.PATIENCE_S)
            for _ in range(asgi._ASKING + 5)
        ]
        patience.until(lambda: len(server.server_state.tasks) == len(answers))  # type: ignore[union-attr]
        assert http.get("/ready").status_code == 200
        request = ReadRequest(instance, "counts", found.partition, "get", (b"k3",))
        reply = http.post("/instances/read", content=msgspec.msgpack.encode(request))
        assert reply.status_code == 200
        assert http.get("/status").json()["state"] == "running"
        app.close()
    assert {answer.result().status_code for answer in answers} == {503}


def test_a_reader_of_changes_that_has_gone_makes_room(http: httpx.Client) -> None:
    path = "/stores/counts/changes?from=beginning"
    for _ in range(3):
        with http.stream("GET", path) as response:
            assert response.status_code == 200
            lines = response.iter_lines()
            assert next(lines) == "retry: 1000"
            with http.stream("GET", path) as another:
                assert another.status_code == 503, list(lines)
        patience.until(lambda: http.head(path).status_code == 200)


@contextmanager
def answering(limit: timedelta) -> Iterator[tuple[str, int]]:
    """A server that sends more than a connection holds."""

    async def answer(_scope: Any, _receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1_000):
            body = {"type": "http.response.body", "body": b"x" * 100_000, "more_body": True}
            await send(body)

    server = Server(Serving("127.0.0.1:0", timeout=limit))
    server.start(answer)
    patience.until(lambda: server._server is not None and server._server.started)
    host, port = server.address.removeprefix("http://").split(":")
    yield host, int(port)
    server.stop()


@pytest.fixture(params=[H11Protocol, HttpToolsProtocol], ids=["h11", "httptools"])
def _each_parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server takes the second where it is installed."""
    monkeypatch.setattr(deadlines, "AutoHTTPProtocol", request.param)


@pytest.fixture
def impatient(_each_parser: None) -> Iterator[tuple[str, int]]:
    """Of a server that waits for nobody for long."""
    with answering(timedelta(milliseconds=50)) as address:
        yield address


@pytest.mark.parametrize("sent", [b"", b"GET /live HTTP/1.1\r\nHost: "], ids=["nothing", "half"])
def test_a_connection_that_asks_nothing_is_given_up(
    impatient: tuple[str, int], sent: bytes
) -> None:
    with closing(socket.create_connection(impatient, patience.PATIENCE_S)) as client:
        client.sendall(sent)
        try:
            answer = client.recv(1)
        except ConnectionResetError:
            answer = b""
        assert answer == b""


def test_a_reader_that_stands_still_is_given_up(impatient: tuple[str, int]) -> None:
    with closing(socket.create_connection(impatient, patience.PATIENCE_S)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        # Its end is known without reading on: nothing can be sent to who is gone.
        with pytest.raises(ConnectionError):
            patience.until(lambda: client.sendall(b"x") and False)


def test_a_request_that_does_not_come_to_its_end_is_told_so(tmp_path: Path) -> None:
    serve = Serving("127.0.0.1:0", timeout=timedelta(milliseconds=50))
    with instance(cluster_with(), tmp_path, serve=serve) as app:
        until(app, shared(app, 1))
        address = app.all_instances()[0].host.removeprefix("http://").split(":")
        with closing(socket.create_connection((address[0], int(address[1])))) as client:
            client.settimeout(patience.PATIENCE_S)
            client.sendall(
                b"POST /instances/read HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx"
            )
            assert client.recv(100).startswith(b"HTTP/1.1 408 ")


@pytest.mark.usefixtures("_each_parser")
def test_a_request_whose_head_never_ends_is_given_up() -> None:
    with answering(LONG) as address, closing(socket.create_connection(address)) as client:
        client.settimeout(patience.PATIENCE_S)
        client.sendall(b"GET / HTTP/1.1\r\n")
        header = b"name: " + b"x" * 1_000 + b"\r\n"
        with pytest.raises(ConnectionError):
            patience.until(lambda: client.sendall(header) and False)


def test_a_connection_with_many_requests_at_once_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other parser takes the second request when the first has its answer."""
    monkeypatch.setattr(deadlines, "AutoHTTPProtocol", HttpToolsProtocol)
    with answering(LONG) as address, closing(socket.create_connection(address)) as client:
        client.settimeout(patience.PATIENCE_S)
        asked = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
        client.sendall(asked * 200)
        with pytest.raises(ConnectionError):
            patience.until(lambda: client.sendall(asked) and False)
