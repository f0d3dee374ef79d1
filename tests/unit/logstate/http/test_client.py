"""What asks other instances, against a socket that answers as it is told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import msgspec
import pytest

from logstate.contracts.errors import StoreAccessError, StoreUnavailableError
from logstate.contracts.serving import Serving
from logstate.http import client as client_module
from logstate.http.client import Client
from logstate.queries.requests import ReadReply, ReadRequest
from tests.patience import PATIENCE_S, until

REQUEST = ReadRequest("run", "counts", 3, "get", (b"k3",))
REPLY = msgspec.msgpack.encode(ReadReply({"in-3": 7}, ["", b"1"]))


def answer(content: bytes, *, length: int | None = None, more: str = "") -> bytes:
    said = len(content) if length is None else length
    return f"HTTP/1.1 200 OK\r\nContent-Length: {said}\r\n{more}\r\n".encode() + content


class Other:
    """Another instance: each connection gets the answers in order, one per request, then ends."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.host = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.answers: list[bytes] = []
        #: per connection, the pieces that were read of it
        self.heard: list[list[bytes]] = []
        self.ended: list[threading.Event] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.heard.append([])
            self.ended.append(threading.Event())
            with connection:
                for one in self.answers:
                    piece = connection.recv(65_536)
                    if not piece:
                        break
                    self.heard[-1].append(piece)
                    connection.sendall(one)
            self.ended[-1].set()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # whoever accepts wakes up
        self._socket.close()


@pytest.fixture
def other() -> Iterator[Other]:
    made = Other()
    yield made
    made.close()


@pytest.fixture
def asks(other: Other) -> Iterator[Callable[[], ReadReply]]:
    client = Client(Serving("127.0.0.1:0", token="hush"))
    yield lambda: client(f"{other.host}/mounted", REQUEST, PATIENCE_S)
    client.close()


def test_a_connection_is_used_again_and_a_request_comes_in_one_piece(
    other: Other, asks: Callable[[], ReadReply], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_IDLE_S", PATIENCE_S)
    other.answers = [answer(REPLY)] * 3
    for _ in range(3):
        assert asks() == ReadReply({"in-3": 7}, ["", b"1"])
    (pieces,) = other.heard
    assert len(pieces) == 3
    head, _, body = pieces[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /mounted/instances/read HTTP/1.1\r\n")
    assert b"Authorization: Bearer hush" in head
    assert msgspec.msgpack.decode(body, type=ReadRequest) == REQUEST


def test_a_connection_that_has_ended_meanwhile_is_replaced(
    other: Other, asks: Callable[[], ReadReply]
) -> None:
    other.answers = [answer(REPLY)]
    for number in range(3):
        assert asks().positions == {"in-3": 7}
        until(other.ended[number].is_set)
    assert len(other.heard) == 3


def test_a_connection_that_the_other_side_ends_with_its_answer_is_not_kept(
    other: Other, asks: Callable[[], ReadReply]
) -> None:
    other.answers = [answer(REPLY, more="Connection: close\r\n")] * 2
    asks(), asks()
    assert [len(pieces) for pieces in other.heard] == [1, 1]


def test_one_that_said_nothing_for_long_is_not_used_again(
    other: Other, asks: Callable[[], ReadReply], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_IDLE_S", 0.0)
    other.answers = [answer(REPLY)] * 2
    asks(), asks()
    assert len(other.heard) == 2


def test_those_of_hosts_that_nobody_asks_any_more_are_ended(
    other: Other, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, another = Client(Serving("127.0.0.1:0")), Other()
    another.answers = other.answers = [answer(REPLY)] * 2
    client(another.host, REQUEST, PATIENCE_S)
    assert not another.ended[0].is_set()
    monkeypatch.setattr(client_module, "_IDLE_S", 0.0)
    client(other.host, REQUEST, PATIENCE_S)
    until(another.ended[0].is_set)
    another.close()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "RemoteDisconnected"),
        (answer(REPLY, length=1_000), "IncompleteRead"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "BadStatusLine"),
        (answer(b"<html>"), "sends an invalid response"),
        (answer(REPLY.replace(b"in-3", b"in\xff3")), "sends an invalid response"),
    ],
    ids=["nothing", "half", "no-http", "another-program", "no-text"],
)
def test_what_is_no_answer_is_tried_again_elsewhere(
    other: Other, asks: Callable[[], ReadReply], said: bytes, reason: str
) -> None:
    other.answers = [said]
    with pytest.raises(StoreUnavailableError, match=rf"^{other.host}/mounted .*{reason}"):
        asks()


def test_nobody_at_the_address_is_said_to_be_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        host = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StoreUnavailableError, match="does not respond: ConnectionRefused"):
            Client(Serving("127.0.0.1:0"))(host, REQUEST, PATIENCE_S)


def test_a_page_has_a_limit(
    other: Other, asks: Callable[[], ReadReply], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "REPLY_BYTES_MAX", len(REPLY) - 1)
    other.answers = [answer(REPLY)]
    with pytest.raises(StoreAccessError, match="lower its page_rows") as caught:
        asks()
    assert not isinstance(caught.value, StoreUnavailableError), "the next attempt ends likewise"


@pytest.mark.parametrize(
    "serving",
    [
        Serving("127.0.0.1:0", token="hush", certificate="tls.crt", private_key="tls.key"),
        Serving(advertised="https://here:1", token="hush"),
    ],
)
def test_the_token_is_not_sent_without_tls_where_this_instance_has_it(serving: Serving) -> None:
    request = ReadRequest("one", "counts", 0, "get", (b"k",))
    with pytest.raises(StoreUnavailableError, match="uses TLS, and does not send its token"):
        Client(serving)("http://127.0.0.1:9", request, 1.0)
