"""The list of local brokers, with shells that stand in for brokers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from logstate.local_broker.registry import (
    RunningBroker,
    register,
    running_brokers,
    stop_running,
    unregister,
)
from tests.patience import PATIENCE_S

Start = Callable[..., RunningBroker]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOGSTATE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process that names a broker's settings in its command line and waits."""
    started: list[subprocess.Popen[bytes]] = []

    def start(
        port: int, *, temporary: bool = False, argument: str = "{}/server.properties"
    ) -> RunningBroker:
        data = tmp_path / f"data-{port}"
        data.mkdir()
        process = subprocess.Popen(
            ["sh", "-c", "echo; read _", argument.format(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        started.append(process)
        # A process that has only just become a shell may not have its command line yet.
        assert process.stdout is not None
        process.stdout.readline()
        return RunningBroker(f"127.0.0.1:{port}", process.pid, str(data), temporary)

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_registered_broker_is_listed_until_it_is_unregistered(start: Start) -> None:
    first, second = start(20_002), start(20_001)
    register(first)
    register(second)
    assert running_brokers() == [second, first]

    unregister(first)
    unregister(first)

    assert running_brokers() == [second]


def test_a_process_that_took_over_the_number_is_not_taken_for_the_broker(start: Start) -> None:
    broker = start(20_001)
    impostor = RunningBroker(broker.bootstrap, broker.pid, "another directory", True)
    register(impostor)

    assert not impostor.is_alive
    assert running_brokers() == []


def test_entries_that_cannot_be_read_are_passed_over(start: Start, own_cache: Path) -> None:
    register(start(20_001))
    (own_cache / "brokers" / "20000.json").write_text("half a fi")
    (own_cache / "brokers" / "20002.json").write_text('{"unknown": 1}')

    assert [one.port for one in running_brokers()] == [20_001]


def test_stopping_ends_the_process_and_removes_only_temporary_data(start: Start) -> None:
    kept, temporary = start(20_001), start(20_002, temporary=True)
    register(kept)
    register(temporary)

    stop_running(kept)
    stop_running(temporary)

    assert running_brokers() == []
    assert Path(kept.data).exists()
    assert not Path(temporary.data).exists()


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "logstate", "broker", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


@pytest.mark.slow
def test_status_without_a_broker_fails_and_says_how_to_start_one() -> None:
    answer = command("status")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "logstate broker start" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.slow
def test_status_prints_one_json_list(start: Start) -> None:
    broker = start(20_001)
    register(broker)

    answer = command("status", "--json")

    assert answer.returncode == 0
    assert [one["data"] for one in json.loads(answer.stdout)] == [broker.data]


@pytest.mark.slow
def test_stop_asks_which_one_when_several_run(start: Start) -> None:
    register(start(20_001))
    register(start(20_002))

    answer = command("stop")
    assert answer.returncode == 1
    assert "--port" in answer.stderr
    assert len(running_brokers()) == 2

    assert command("stop", "--port", "20001").stdout == "stopped 127.0.0.1:20001\n"
    assert [one.port for one in running_brokers()] == [20_002]
    assert command("stop", "--all").stdout == "stopped 127.0.0.1:20002\n"
    assert running_brokers() == []


def test_the_last_node_of_a_cluster_takes_their_directory_with_it(tmp_path: Path) -> None:
    nodes = [tmp_path / "home" / f"node-{number}" for number in (1, 2)]
    for node in nodes:
        node.mkdir(parents=True)
    first, last = (
        RunningBroker(f"127.0.0.1:{7 + n}", 0, str(d), True) for n, d in enumerate(nodes)
    )

    stop_running(first)
    assert nodes[1].exists()

    stop_running(last)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("argument", ["{}", "{}/server.properties.old", "vi {}/server.properties"])
def test_a_process_that_only_mentions_the_directory_is_not_the_broker(
    start: Start, argument: str
) -> None:
    assert not start(20_001, argument=argument).is_alive
