"""The service example in two processes: asked over HTTP, and ended under load."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from logstate.contracts.records import ProducedRecord
from logstate.kafka.client_settings import ClientSettings
from logstate.kafka.cluster import KafkaCluster
from logstate.local_broker.ports import reserve_port
from tests import patience
from tests.broker.raw_topic import create_topic

ROOT = Path(__file__).resolve().parents[2]
CUSTOMERS = [f"c{number}" for number in range(20)]


def spends(client: httpx.Client, port: int) -> dict[str, int]:
    found = {}
    for customer in CUSTOMERS:
        answer = client.get(f"http://127.0.0.1:{port}/spend/{customer}")
        if answer.status_code == 200:
            found[customer] = answer.json()["spend"]
    return found


def hosts(client: httpx.Client, port: int) -> set[str]:
    url = f"http://127.0.0.1:{port}/spend"
    answers = [client.get(f"{url}/{c}").raise_for_status() for c in CUSTOMERS]
    return {answer.json()["from"] for answer in answers}


def until(is_so: Callable[[], Any], what: str) -> None:
    def is_so_by_now() -> bool:
        try:
            return bool(is_so())
        except httpx.HTTPError:
            return False  # it has not begun to listen, or its tasks are on their way

    patience.until(is_so_by_now, what)


def test_two_instances_answer_for_each_other_and_sigterm_under_load_loses_nothing(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    name = unique("service")
    orders = f"{name}-orders"
    create_topic(bootstrap, orders, partitions=4)
    reserved = [reserve_port(), reserve_port()]
    ports = [one.port for one in reserved]
    sent: Counter[str] = Counter()
    cluster = KafkaCluster(bootstrap, ClientSettings({}, {}, {}, {}), client_id="orders")
    producer = cluster.plain_producer()

    def send(rounds: int) -> None:
        for amount in range(rounds):
            value = (amount + 1).to_bytes(8, "big")
            producer.produce(
                [ProducedRecord(orders, None, c.encode(), value, 1) for c in CUSTOMERS]
            )
            sent.update(dict.fromkeys(CUSTOMERS, amount + 1))
        producer.flush()

    with ExitStack() as stack:
        stack.callback(producer.close)
        for one in reserved:
            stack.callback(one.release)
        processes = []
        for port in ports:
            command = [sys.executable, "-m", "examples.08_service.app", bootstrap]
            command += [str(tmp_path / str(port)), "--port", str(port)]
            command += ["--orders", orders, "--name", name]
            environment = {**os.environ, "SERVICE_TOKEN": "example"}
            process = subprocess.Popen(command, cwd=ROOT, env=environment)
            stack.callback(process.kill)
            processes.append(process)
        client = stack.enter_context(httpx.Client(trust_env=False, timeout=60))
        send(20)
        token = {"Authorization": "Bearer example"}

        def both_have_some() -> bool:
            answer = client.get(f"http://127.0.0.1:{ports[0]}/state/status", headers=token)
            status = answer.raise_for_status().json()
            readable = [
                sum(task["is_readable"] for task in one["tasks"].values())
                for one in status["instances"]
            ]
            return len(readable) == 2 and all(readable) and sum(readable) == 4

        until(both_have_some, "they do not share the partitions")
        for port in ports:
            until(lambda port=port: spends(client, port) == sent, "an answer is missing")  # type: ignore[misc]

        until(lambda: len(hosts(client, ports[0])) == 2, "one of them answers for everybody")
        send(20)
        processes[1].send_signal(signal.SIGTERM)
        send(20)
        assert processes[1].wait(patience.PATIENCE_S) in (0, -signal.SIGTERM)
        until(lambda: spends(client, ports[0]) == sent, "something is lost or doubled")
