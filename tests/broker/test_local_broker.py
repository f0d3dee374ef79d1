"""The local broker itself: several at once, crash and restart, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from logstate.contracts.errors import BrokerError
from logstate.local_broker.broker import LocalBroker
from logstate.local_broker.ports import is_free, reserve_port
from logstate.local_broker.probe import broker_count
from logstate.local_broker.registry import running_brokers
from tests.broker.raw_topic import create_topic, read_all, write
from tests.patience import PATIENCE_S, until


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker.start(heap="320m") as broker:
        yield broker


def test_two_brokers_run_at_once_and_know_nothing_of_each_other(broker: LocalBroker) -> None:
    with LocalBroker.start(heap="320m") as other:
        create_topic(broker.bootstrap, "here")
        create_topic(other.bootstrap, "there")

        write(broker.bootstrap, "here", [b"1"])
        write(other.bootstrap, "there", [b"2"])

        assert read_all(broker.bootstrap, "here") == [b"1"]
        assert read_all(other.bootstrap, "there") == [b"2"]
        assert other.bootstrap != broker.bootstrap


def test_data_and_port_survive_a_kill(broker: LocalBroker) -> None:
    create_topic(broker.bootstrap, "kept")
    write(broker.bootstrap, "kept", [b"before"])
    address, first_pid = broker.bootstrap, broker.pid

    broker.kill()

    assert broker.pid is None
    assert broker_count(address) == 0
    broker.restart()
    assert broker.bootstrap == address
    assert broker.pid != first_pid
    assert read_all(address, "kept") == [b"before"]


def test_stop_removes_temporary_data_and_frees_the_port() -> None:
    broker = LocalBroker.start(heap="320m")
    port, data = int(broker.bootstrap.split(":")[1]), broker.data
    assert data.exists()
    assert not is_free(port)

    broker.stop()
    broker.stop()

    assert not data.exists()
    assert is_free(port)
    assert broker.bootstrap not in {one.bootstrap for one in running_brokers()}


def test_a_given_directory_is_kept_and_read_again_on_another_port(tmp_path: Path) -> None:
    with LocalBroker.start(data=tmp_path, heap="320m") as first:
        create_topic(first.bootstrap, "kept")
        write(first.bootstrap, "kept", [b"1", b"2"])
        old = first.bootstrap

    with LocalBroker.start(data=tmp_path, heap="320m") as second:
        assert second.bootstrap != old
        assert read_all(second.bootstrap, "kept") == [b"1", b"2"]


def test_server_properties_given_by_the_caller_win() -> None:
    properties = {"auto.create.topics.enable": "true", "num.partitions": "3"}
    with LocalBroker.start(heap="320m", properties=properties) as broker:
        write(broker.bootstrap, "made-on-the-way", [b"1"])
        assert read_all(broker.bootstrap, "made-on-the-way") == [b"1"]
        settings = (broker.data / "server.properties").read_text().splitlines()
        assert "num.partitions=3" in settings


def test_a_taken_port_is_refused_with_what_to_do(broker: LocalBroker) -> None:
    port = int(broker.bootstrap.split(":")[1])
    with pytest.raises(BrokerError, match=r"is in use.*logstate broker status"):
        LocalBroker.start(port=port)


def test_a_reserved_port_is_not_given_twice() -> None:
    held = reserve_port()
    with pytest.raises(BrokerError, match="is in use"):
        reserve_port(held.port)

    held.release()

    again = reserve_port(held.port)
    again.release()


def test_a_broker_that_cannot_start_shows_its_log() -> None:
    with pytest.raises(BrokerError, match=r"Likely a bad server property(.|\n)*num\.io\.threads"):
        LocalBroker.start(heap="320m", properties={"num.io.threads": "many"})


def test_a_heap_too_small_to_run_in_shows_the_log_of_the_jvm() -> None:
    with pytest.raises(BrokerError, match=r"status 1 while starting(.|\n)*heap"):
        LocalBroker.start(heap="1k")


def test_a_broker_dies_with_the_process_that_started_it() -> None:
    script = (
        "import sys, time\n"
        "from logstate.local_broker.broker import LocalBroker\n"
        "broker = LocalBroker.start(heap='320m')\n"
        "print(broker.bootstrap, broker.data, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        address, data = starter.stdout.readline().decode().split()
        until(lambda: broker_count(address) == 1)

        os.kill(starter.pid, signal.SIGKILL)

    until(lambda: broker_count(address) == 0)
    until(lambda: not Path(data).exists())


def test_the_command_starts_lists_and_stops_a_broker_that_outlives_it() -> None:
    def logstate(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "logstate", "broker", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    (started,) = json.loads(logstate("start", "--heap", "320m", "--tls", "--json").stdout)
    address = started["bootstrap"]
    port = address.split(":")[1]
    try:
        until(lambda: broker_count(address) == 1)
        (client,) = started.pop("clients")
        assert client["security.protocol"] == "SSL"
        assert client["bootstrap.servers"] != address
        listed = json.loads(logstate("status", "--json").stdout)
        assert started in listed
    finally:
        stopped = logstate("stop", "--port", port)

    assert stopped.stdout == f"stopped {address}\n"
    assert broker_count(address) == 0
    assert not Path(started["data"]).exists()
    again = logstate("stop", "--port", port)
    assert again.returncode == 1
    assert "No such local broker" in again.stderr


def test_a_broker_maps_the_classes_that_prepare_keeps() -> None:
    prepared = subprocess.run(
        [sys.executable, "-m", "logstate", "broker", "prepare", "--json"],
        capture_output=True,
        check=True,
    )
    archive = json.loads(prepared.stdout)["archive"]

    with LocalBroker.start(heap="320m") as started:
        assert archive in Path(f"/proc/{started.pid}/maps").read_text()
