"""Ask a broker over its own protocol whether it serves clients yet.

An open port is not enough: a KRaft node accepts connections before it is registered and unfenced,
and a client that connects then receives metadata without brokers. One Metadata request,
written here in its last version without compact fields, shows the difference and needs no
client library::

    request   int32 size | int16 api 3 | int16 version 8 | int32 correlation | string client
              | int32 topic count 0 | bool auto-create | bool authorized ops x2
    response  int32 size | int32 correlation | int32 throttle | int32 broker count | ...
"""

from __future__ import annotations

import socket
import struct

_METADATA_API = 3
_METADATA_VERSION = 8
_CLIENT = b"logstate-probe"
_REQUEST_BODY = (
    struct.pack(">hhih", _METADATA_API, _METADATA_VERSION, 1, len(_CLIENT))
    + _CLIENT
    + struct.pack(">i???", 0, False, False, False)
)
_RESPONSE_HEAD = struct.Struct(">iiii")


def broker_count(bootstrap: str, *, timeout_s: float = 2.0) -> int:
    """Return how many unfenced brokers the cluster has; 0 while no address answers.

    Args:
        bootstrap: ``host:port``, or several of them with commas between.
        timeout_s: how long to wait for each address.
    """
    return max(_count_at(address, timeout_s) for address in bootstrap.split(","))


def _count_at(address: str, timeout_s: float) -> int:
    host, _, port = address.strip().rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(_REQUEST_BODY)) + _REQUEST_BODY)
            head = _receive(connection, _RESPONSE_HEAD.size)
    except OSError:
        return 0
    if len(head) < _RESPONSE_HEAD.size:
        return 0
    _size, _correlation, _throttle_ms, brokers = _RESPONSE_HEAD.unpack(head)
    return int(brokers)


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            break
        received += chunk
    return received
