"""Ports for local brokers: reserved against each other, outside of the ephemeral range."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from logstate.contracts.errors import BrokerError
from logstate.local_broker.ports import LOOPBACK, LOWEST_PORT, is_free, reserve_port
from tests.patience import PATIENCE_S


def test_a_reserved_port_is_not_given_twice() -> None:
    held = reserve_port()
    with pytest.raises(BrokerError, match="is in use"):
        reserve_port(held.port)

    held.release()
    held.release()

    reserve_port(held.port).release()


def test_another_process_does_not_get_a_reserved_port() -> None:
    held = reserve_port()
    code = f"from logstate.local_broker.ports import reserve_port; reserve_port({held.port})"
    answer = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    held.release()

    assert "is in use" in answer.stderr


def test_a_bound_port_is_neither_free_nor_reserved() -> None:
    held = reserve_port()  # outgoing connections of other programs do not come here
    port = held.port
    with socket.create_server((LOOPBACK, port)):
        held.release()
        assert not is_free(port)
        with pytest.raises(BrokerError, match=f"Port {port} on {LOOPBACK} is in use"):
            reserve_port(port)
    assert is_free(port)


def test_many_reservations_are_all_different() -> None:
    held = [reserve_port() for _ in range(50)]
    ports = {one.port for one in held}
    for one in held:
        one.release()

    assert len(ports) == 50


def test_ports_lie_below_those_of_outgoing_connections() -> None:
    text = Path("/proc/sys/net/ipv4/ip_local_port_range")
    lowest = int(text.read_text().split()[0]) if text.exists() else 32_768
    held = [reserve_port() for _ in range(20)]
    for one in held:
        one.release()

    assert all(LOWEST_PORT <= one.port < max(lowest, LOWEST_PORT + 1_000) for one in held)
