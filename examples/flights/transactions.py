"""Look at a transaction on the broker: the requests behind ``kafka-transactions.sh``.

The Python client has no call for this, and the command-line tool is a second Java program, so the
two requests (DescribeTransactions and ListTransactions, version 0, KIP-664) are written out here.
They go to the transaction coordinator; with one broker that is the bootstrap address.

Bytes: a request is its length (4), api key (2), version (2), correlation id (4), client id (length
2 + text), then in "flexible" form: lengths and counts are varints of n + 1, and a tag section (one
zero byte here) ends every structure. All numbers are big-endian.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

_DESCRIBE_TRANSACTIONS = 65
_LIST_TRANSACTIONS = 66
# The id is not found (105), or the coordinator is not there (15, 16) or not ready (14), as on a new
# broker that has never seen any transaction.
_UNKNOWN = (105, 14, 15, 16)
_CLIENT_ID = b"flights-demo"
_NO_TAGS = b"\x00"


@dataclass(frozen=True)
class Transaction:
    """A transactional id as its coordinator describes it.

    ``state`` is one of Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort,
    Dead, PrepareEpochFence. ``partitions`` are those that the open transaction has written to.
    """

    transactional_id: str
    state: str
    start_ms: int
    producer_id: int
    partitions: tuple[tuple[str, int], ...]


def describe_transaction(bootstrap: str, transactional_id: str) -> Transaction | None:
    """What the coordinator knows about this id, or None when it has never seen it."""
    body = _varint(2) + _text(transactional_id) + _NO_TAGS
    answer = _ask(bootstrap, _DESCRIBE_TRANSACTIONS, body)
    answer.int32()  # throttle time
    if answer.count() != 1:
        raise ConnectionError(f"{bootstrap} did not describe {transactional_id!r}")
    error = answer.int16()
    name, state = answer.text(), answer.text()
    answer.int32()  # transaction timeout
    start_ms, producer_id = answer.int64(), answer.int64()
    answer.int16()  # producer epoch
    partitions = []
    for _ in range(answer.count()):
        topic = answer.text()
        partitions += [(topic, answer.int32()) for _ in range(answer.count())]
        answer.tags()
    if error in _UNKNOWN:
        return None
    if error:
        raise ConnectionError(f"{bootstrap} answers error {error} when asked about {name!r}")
    return Transaction(name, state, start_ms, producer_id, tuple(sorted(partitions)))


def list_transactions(bootstrap: str, state: str | None = None) -> list[str]:
    """The transactional ids this broker coordinates, of one state or of all."""
    states = _varint(1) if state is None else _varint(2) + _text(state)
    answer = _ask(bootstrap, _LIST_TRANSACTIONS, states + _varint(1) + _NO_TAGS)
    answer.int32()  # throttle time
    if error := answer.int16():
        raise ConnectionError(f"{bootstrap} answers error {error} when asked for transactions")
    for _ in range(answer.count()):
        answer.text()  # states that this broker does not know
    found = []
    for _ in range(answer.count()):
        found.append(answer.text())
        answer.int64()  # producer id
        answer.text()  # its state
        answer.tags()
    return sorted(found)


class _Answer:
    """A cursor over a flexible response."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def int16(self) -> int:
        return self._number(">h")

    def int32(self) -> int:
        return self._number(">i")

    def int64(self) -> int:
        return self._number(">q")

    def text(self) -> str:
        length = self.count()
        self._at += length
        return self._content[self._at - length : self._at].decode()

    def count(self) -> int:
        """A length or an element count; null counts as none."""
        return max(self._varint() - 1, 0)

    def tags(self) -> None:
        for _ in range(self._varint()):
            self._varint()  # tag
            self._at += self._varint()

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._content[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _number(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self._content, self._at)
        self._at += struct.calcsize(layout)
        return int(value)


def _ask(bootstrap: str, api_key: int, body: bytes) -> _Answer:
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    header = struct.pack(f">hhih{len(_CLIENT_ID)}s", api_key, 0, 1, len(_CLIENT_ID), _CLIENT_ID)
    request = header + _NO_TAGS + body
    with socket.create_connection((host, int(port)), timeout=60) as broker:
        broker.sendall(struct.pack(">i", len(request)) + request)
        (length,) = struct.unpack(">i", _receive(broker, 4))
        answer = _Answer(_receive(broker, length))
    answer.int32()  # correlation id
    answer.tags()
    return answer


def _receive(broker: socket.socket, length: int) -> bytes:
    received = bytearray()
    while len(received) < length:
        if not (part := broker.recv(length - len(received))):
            raise ConnectionError("the broker closed the connection")
        received += part
    return bytes(received)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _varint(len(encoded) + 1) + encoded


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
