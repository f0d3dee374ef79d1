"""Readiness on the real broker: a rolling restart, and rows of an instance that lags behind."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from logstate import Application, Serving, StreamsBuilder
from logstate.contracts.records import ProducedRecord
from logstate.kafka.client_settings import ClientSettings
from logstate.kafka.cluster import KafkaCluster
from logstate.local_broker.ports import reserve_port
from tests.broker.group_settings import expect_heartbeats_within
from tests.broker.raw_topic import create_topic
from tests.campaigns.toolkit.process import start_module
from tests.patience import PATIENCE_S, until

USERS = [f"user-{number}" for number in range(20)]
#: 20 requests per second
PERIOD_S = 0.05
PROBE_S = 0.25


class Producer:
    """Produces records to one topic, and returns when the broker has them."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        cluster = KafkaCluster(bootstrap, ClientSettings({}, {}, {}, {}), client_id="sender")
        self._producer = cluster.plain_producer()
        self._topic = topic

    def send(self, *records: tuple[str, str]) -> None:
        self._producer.produce(
            [
                ProducedRecord(self._topic, None, key.encode(), value.encode(), 1)
                for key, value in records
            ]
        )
        self._producer.flush()

    def close(self) -> None:
        self._producer.close()


class LoadBalancer:
    """Sends 20 requests a second to replicas in turn, to those that were ready at the last probe.

    Every replica is probed four times a second.
    """

    def __init__(self, hosts: list[str]) -> None:
        self.answered: Counter[str] = Counter()
        self.failed: list[str] = []
        self.ready = dict.fromkeys(hosts, False)
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._probe, args=(host,), daemon=True) for host in hosts
        ]
        self._threads.append(threading.Thread(target=self._request, daemon=True))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def _probe(self, host: str) -> None:
        with httpx.Client(trust_env=False, timeout=PATIENCE_S) as client:
            while not self._is_over.wait(PROBE_S):
                try:
                    self.ready[host] = client.get(f"{host}/ready").status_code == 200
                except httpx.HTTPError:
                    self.ready[host] = False

    def _request(self) -> None:
        number = 0
        with ExitStack() as stack:
            while not self._is_over.wait(PERIOD_S):
                ready = [host for host, is_ready in self.ready.items() if is_ready]
                if not ready:
                    self.failed.append("no replica is ready")
                    continue
                number += 1
                host, user = ready[number % len(ready)], USERS[number % len(USERS)]
                thread = threading.Thread(target=self._get, args=(host, user), daemon=True)
                thread.start()
                stack.callback(thread.join, PATIENCE_S)

    def _get(self, host: str, user: str) -> None:
        began_s = time.monotonic()
        try:
            with httpx.Client(trust_env=False, timeout=PATIENCE_S) as client:
                answer = client.get(f"{host}/stores/per-user/{user}")
        except httpx.HTTPError as exc:
            self.failed.append(f"{host} {user}: {exc!r}")
            return
        if answer.status_code != 200 or answer.json()["row"]["value"] != 1:
            took = f"{time.monotonic() - began_s:.1f} s"
            self.failed.append(f"{host} {user} {took}: {answer.status_code} {answer.text}")
        self.answered[host] += 1


@pytest.fixture
def serve(bootstrap: str, tmp_path: Path) -> Iterator[Callable[[str, int], subprocess.Popen[Any]]]:
    with ExitStack() as stack:

        def start(name: str, port: int) -> subprocess.Popen[Any]:
            state = tmp_path / str(port)
            process = start_module("tests.broker.served_app", bootstrap, name, state, port)
            stack.callback(process.kill)
            return process

        yield start


def test_no_request_fails_during_a_rolling_restart_if_the_client_follows_readiness(
    bootstrap: str, unique: Callable[[str], str], serve: Callable[[str, int], subprocess.Popen[Any]]
) -> None:
    name = unique("rolling")
    for topic in ("clicks", "per-user", "per-page"):
        create_topic(bootstrap, f"{name}-{topic}", partitions=4)
    expect_heartbeats_within(bootstrap, name)
    with ExitStack() as stack:
        ports = []
        for _ in range(2):
            reserved = reserve_port()
            stack.callback(reserved.release)
            ports.append(reserved.port)
        producer = Producer(bootstrap, f"{name}-clicks")
        stack.callback(producer.close)
        producer.send(*((user, "home") for user in USERS))
        hosts = [f"http://127.0.0.1:{port}" for port in ports]
        processes = [serve(name, port) for port in ports]
        client = stack.enter_context(httpx.Client(trust_env=False, timeout=PATIENCE_S))

        def do_all_answer() -> bool:
            try:
                return all(
                    client.get(f"{host}/ready").status_code == 200
                    and client.get(f"{host}/stores/per-user/{user}").status_code == 200
                    for host in hosts
                    for user in USERS
                )
            except httpx.HTTPError:
                return False

        until(do_all_answer)
        with LoadBalancer(hosts) as balancer:
            until(lambda: all(balancer.answered[host] > 5 for host in hosts))
            balancer.failed.clear()
            for number, port in enumerate(ports):
                processes[number].send_signal(signal.SIGTERM)
                assert processes[number].wait(PATIENCE_S) == 0
                processes[number] = serve(name, port)
                until(lambda number=number: balancer.ready[hosts[number]])  # type: ignore[misc]
                before = balancer.answered[hosts[number]]
                until(
                    lambda n=number, before=before: balancer.answered[hosts[n]] > before + 5  # type: ignore[misc]
                )
        assert balancer.failed == []


def slowed(name: str) -> StreamsBuilder:
    """Keeps the last value of each key; a value that begins with ``slow`` takes 50 ms."""

    def slow_down(value: str) -> str:
        if value.startswith("slow"):
            time.sleep(0.05)  # a function that is slower than the records arrive
        return value

    builder = StreamsBuilder()
    records = builder.stream(f"{name}-in", key=str, value=str).map_values(slow_down, value=str)
    records.group_by_key().reduce(lambda _, new: new, store="last")
    return builder


def test_no_replica_that_is_ready_by_max_age_returns_an_older_row(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    name = unique("lag")
    create_topic(bootstrap, f"{name}-in", partitions=2)
    expect_heartbeats_within(bootstrap, name)
    limit_s = 0.7
    #: the number of the last record that the broker had, and when
    sent: list[tuple[float, int]] = []
    producer = Producer(bootstrap, f"{name}-in")
    is_slow, is_over = threading.Event(), threading.Event()

    def produce() -> None:
        number = 0
        while not is_over.is_set():
            word = "slow" if is_slow.is_set() else "fast"
            producer.send(*((USERS[0], f"{word} {number + one}") for one in range(10)))
            number += 10
            sent.append((time.monotonic(), number - 1))
            is_over.wait(0.1)

    with ExitStack() as stack:
        apps = [
            stack.enter_context(
                Application(
                    slowed(name).build(),
                    application_id=name,
                    bootstrap=bootstrap,
                    state_dir=tmp_path / str(number),
                    commit_interval=timedelta(milliseconds=50),
                    serve=Serving("127.0.0.1:0", drain=timedelta(0)),
                )
            )
            for number in range(2)
        ]
        until(lambda: all(len(app.metadata_for_store("last")) == 2 for app in apps))
        hosts = [one.host for one in apps[0].all_instances()]
        stack.callback(producer.close)
        sender = threading.Thread(target=produce, daemon=True)
        sender.start()
        stack.callback(sender.join, PATIENCE_S)
        stack.callback(is_over.set)
        client = stack.enter_context(httpx.Client(trust_env=False, timeout=PATIENCE_S))

        def check(host: str) -> int:
            """Return the status of readiness; check the row that a replica that is ready has."""
            looked_s = time.monotonic()
            status = client.get(f"{host}/ready?max_age={int(limit_s * 1000)}ms").status_code
            if status == 200:
                answer = client.get(f"{host}/stores/last/{USERS[0]}")
                least = max((n for at, n in list(sent) if at < looked_s - limit_s), default=-1)
                found = int(answer.json()["row"]["value"].split()[1]) if least >= 0 else 0
                assert found >= least, answer.text
            return status

        until(lambda: sent)
        for slow, status in ((False, 200), (True, 503), (False, 200)):
            (is_slow.set if slow else is_slow.clear)()
            for host in hosts:
                until(lambda host=host, status=status: check(host) == status)  # type: ignore[misc]
