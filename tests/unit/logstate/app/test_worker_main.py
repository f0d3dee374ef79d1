"""What a worker process is told to run, in every form, and how its failures travel."""

from __future__ import annotations

import sys
import threading
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.app.instance.channel import Channel
from logstate.app.instance.owner_process import is_worker
from logstate.app.instance.states import Lifecycle
from logstate.app.instance.worker_processes import StartCommand
from logstate.app.worker_main import ServedWorker, new_worker, program
from logstate.contracts.errors import ConfigError, LogstateError
from logstate.testing import FakeCluster
from logstate.topology import StreamsBuilder, Topology
from logstate.topology.dsl.topology_target import resolved
from tests.unit.logstate.app.instance.thread_process import settings_of
from tests.unit.logstate.flows import counted
from tests.unit.logstate.task.task_bench import topology_of


def counting() -> Topology:
    return topology_of(counted)


def building() -> StreamsBuilder:
    builder = StreamsBuilder()
    counted(builder)
    return builder


def of_size(size: int) -> Topology:
    return counting()


def nothing() -> None:
    """No topology at all."""


HERE = __name__


@pytest.mark.parametrize("target", [f"{HERE}:counting", counting, building, topology_of(counted)])
def test_a_process_makes_the_same_topology_of_it(target: Any, tmp_path: Path) -> None:
    here, travels = resolved(target)
    settings = settings_of(counted, slot=4, workers=3)
    ordered = program(travels, settings, tmp_path)
    worker = new_worker(StartCommand(2, False, {}, ordered), Lifecycle(), lambda _: None)
    try:
        assert worker._settings.topology.describe() == here.describe()
        assert worker._settings.slot == 6
        assert worker.config.cache_bytes == settings.cache_bytes // 3
        assert worker.config.checkpoint_bytes == settings.checkpoint_bytes // 3
        assert (tmp_path / "app" / "instance-6.lock").exists()
    finally:
        worker.release()


def test_a_lambda_is_sent_and_called_there(tmp_path: Path) -> None:
    _, travels = resolved(lambda: topology_of(counted))
    ordered = program(travels, settings_of(counted), tmp_path)
    worker = new_worker(StartCommand(0, False, {}, ordered), Lifecycle(), lambda _: None)
    worker.release()
    assert "counts" in worker._settings.topology.stores


FACTOR = 1


def scaled(builder: StreamsBuilder) -> None:
    builder.stream("in", value=int).map_values(lambda value: value * FACTOR, value=int).to("out")


@pytest.mark.parametrize(("number", "warnings"), [(0, 1), (1, 0)])
def test_the_first_worker_warns_of_a_value_that_the_main_program_changed(
    number: int,
    warnings: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sys.modules[HERE], "FACTOR", 7)
    ordered = program(lambda: topology_of(scaled), settings_of(scaled), tmp_path)
    monkeypatch.undo()
    worker = new_worker(StartCommand(number, False, {}, ordered), Lifecycle(), lambda _: None)
    worker.release()
    assert len(caplog.messages) == warnings
    assert all(f"reads {HERE}.FACTOR, which is 7 in the main" in text for text in caplog.messages)


def test_a_function_that_returns_no_topology_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"nothing' is a NoneType, not a topology"):
        resolved(nothing)
    with pytest.raises(ConfigError, match=r"without arguments.*'size'"):
        resolved(of_size)


def test_a_module_that_starts_an_application_does_not_start_it_again_in_a_worker(
    tmp_path: Path,
) -> None:
    app = Application(
        counting,
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        cluster=FakeCluster({"in": 1, "out": 1}),
    )
    is_worker.set()
    try:
        with pytest.raises(LogstateError, match="while a worker process imported"):
            app.start()
    finally:
        is_worker.clear()
        app.close()


class Odd(Exception):
    """Cannot be made from its arguments."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what} at {where}")
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    ("failure", "kind"), [(ConfigError("wrong"), ConfigError), (Odd("fire", "home"), LogstateError)]
)
def test_whatever_ends_a_process_is_told_with_its_place(
    failure: Exception, kind: type[Exception]
) -> None:
    def fails(*_: Any) -> Any:
        raise failure

    ours, theirs = Pipe()
    here = Channel(ours, "ours")
    ServedWorker(Channel(theirs, "theirs"), StartCommand(0, False, {}, b""), fails).serve()
    told, content = here.receive()
    assert told == "ended"
    assert type(content) is kind
    assert str(failure) in str(content)
    assert "in fails" in "".join(content.__notes__)
    here.close()
