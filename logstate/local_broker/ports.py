"""Free loopback ports for local brokers, held against the next process that asks.

A port found free may be taken before the broker binds it. So a port is *reserved*: an exclusive
file lock per port number, held by this process as long as the reservation lives, which keeps it
even while a broker is down between a kill and a restart.

Ports come from below the kernel's range of ephemeral ports. Inside that range any outgoing
connection may own the number while the broker is down, and a client that keeps trying to reach a
dead port of that range on loopback can end up connected to itself.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

from logstate.contracts.errors import BrokerError

LOOPBACK = "127.0.0.1"
LOWEST_PORT = 20_000


class PortReservation:
    """A port number that no other reservation on this machine can get until ``release``."""

    def __init__(self, port: int, lock_file: int) -> None:
        self.port = port
        self._lock_file: int | None = lock_file

    def release(self) -> None:
        """Give the number back; a second call does nothing."""
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None


def reserve_port(port: int | None = None) -> PortReservation:
    """Reserve ``port``, or a free one when none is given.

    Raises:
        BrokerError: the given port is bound or reserved by another process.
    """
    if port is not None:
        reservation = _try_reserve(port)
        if reservation is None:
            raise BrokerError(
                f"Port {port} on {LOOPBACK} is in use. Another broker is the likely owner: "
                f"`logstate broker status` lists the local ones. Give another port, or none."
            )
        return reservation
    # Not seeded on purpose: two processes with equal seeds would fight for the same numbers.
    choice = random.SystemRandom()
    highest = max(_lowest_ephemeral_port(), LOWEST_PORT + 1_000)
    for _ in range(200):
        reservation = _try_reserve(choice.randrange(LOWEST_PORT, highest))
        if reservation is not None:
            return reservation
    raise BrokerError(
        f"No free port between {LOWEST_PORT} and {highest} in 200 tries. "
        f"Stop brokers that are left over: `logstate broker stop --all`."
    )


def is_free(port: int) -> bool:
    """Whether nothing listens on this loopback port right now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the broker does: a port whose last connections are in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _try_reserve(port: int) -> PortReservation | None:
    lock_file = os.open(_lock_path(port), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock_file)
        return None
    if not is_free(port):
        os.close(lock_file)
        return None
    return PortReservation(port, lock_file)


def _lock_path(port: int) -> Path:
    directory = Path(tempfile.gettempdir()) / f"logstate-ports-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory / str(port)


def _lowest_ephemeral_port() -> int:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    except OSError:
        return 32_768
    return int(text.split()[0])
