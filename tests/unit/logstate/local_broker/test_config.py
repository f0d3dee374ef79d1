"""What the local broker is told, without starting one."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from logstate.local_broker.config import FOR_TESTS, ONE_NODE, SHORT_WAITS, server_properties
from logstate.local_broker.jars import cache_directory
from logstate.local_broker.probe import broker_count


def settings(**overrides: str) -> dict[str, str]:
    text = server_properties(
        port=29_000,
        controller_port=29_001,
        log_directory=Path("logs"),
        overrides={name.replace("_", "."): value for name, value in overrides.items()},
    )
    return dict(line.split("=", 1) for line in text.splitlines())


def test_the_broker_listens_on_loopback_only() -> None:
    found = settings()
    for listener in found["listeners"].split(","):
        assert "://127.0.0.1:" in listener
    assert found["advertised.listeners"] == "PLAINTEXT://127.0.0.1:29000"
    assert found["controller.quorum.bootstrap.servers"] == "127.0.0.1:29001"


def test_no_setting_is_decided_in_two_places() -> None:
    tables = (ONE_NODE, SHORT_WAITS, FOR_TESTS)
    assert len(set().union(*tables)) == sum(len(table) for table in tables)


def test_a_setting_given_by_the_caller_wins_over_every_default() -> None:
    found = settings(num_partitions="9", process_roles="broker")
    assert found["num.partitions"] == "9"
    assert found["process.roles"] == "broker"


def test_old_event_times_are_not_deleted_by_the_retention_clock() -> None:
    assert settings()["log.retention.ms"] == "-1"


def test_the_cache_follows_the_variables_in_their_order() -> None:
    everything = {"LOGSTATE_CACHE_DIR": "a", "XDG_CACHE_HOME": "b", "HOME": "c"}
    assert cache_directory(everything) == Path("a")
    del everything["LOGSTATE_CACHE_DIR"]
    assert cache_directory(everything) == Path("b/logstate")
    del everything["XDG_CACHE_HOME"]
    assert cache_directory(everything) == Path("c/.cache/logstate")


def answering(response: bytes) -> tuple[str, threading.Thread]:
    """A server that reads one request, sends ``response`` and hangs up."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server, server.accept()[0] as connection:
            size = struct.unpack(">i", connection.recv(4))[0]
            received = 0
            while received < size:
                received += len(connection.recv(size - received))
            connection.sendall(response)

    thread = threading.Thread(target=serve)
    thread.start()
    return f"127.0.0.1:{server.getsockname()[1]}", thread


def test_a_broker_that_knows_itself_is_counted() -> None:
    address, thread = answering(struct.pack(">iiii", 12, 1, 0, 1))
    assert broker_count(address) == 1
    thread.join()


def test_an_open_port_without_a_registered_broker_counts_nothing() -> None:
    address, thread = answering(struct.pack(">iiii", 12, 1, 0, 0))
    assert broker_count(address) == 0
    thread.join()


def test_a_server_that_hangs_up_counts_nothing() -> None:
    address, thread = answering(b"\x00\x00")
    assert broker_count(address) == 0
    thread.join()


def test_one_address_that_answers_is_enough() -> None:
    address, thread = answering(struct.pack(">iiii", 12, 1, 0, 3))
    assert broker_count(f"127.0.0.1:1, {address}") == 3
    thread.join()


@pytest.mark.slow
def test_a_cluster_that_is_no_cluster_is_refused_before_anything_starts() -> None:
    for arguments in (["--brokers", "2"], ["--brokers", "3", "--port", "29000"]):
        command = [sys.executable, "-m", "logstate", "broker", "start", *arguments]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        assert answer.returncode == 1
        assert "--brokers is 1 or 3" in answer.stderr
