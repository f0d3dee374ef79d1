"""Every metric of the catalogue is recorded: none is only promised."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from logstate.contracts.clients import Step
from logstate.contracts.records import TopicPartition
from logstate.metrics.catalogue import CATALOGUE
from logstate.task.error_handlers import (
    Action,
    Decision,
    ErrorHandlers,
    FailedRecord,
    dead_letter,
    skip,
)
from logstate.topology import JoinWindows, Processor, StreamsBuilder, TumblingWindows
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, send


class Ticking(Processor[str, str, str, str]):
    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(timedelta(milliseconds=10), "wall_clock", lambda now: None)

    def process(self, record: Any) -> None:
        if record.key in ("skipped", "dead", "again"):
            raise ValueError(record.key)
        self.context.forward(record)


def everything(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=str)
    ticked = stream.process(Ticking, key=str, value=str)
    windows = TumblingWindows(size=timedelta(milliseconds=10))
    ticked.group_by_key().windowed_by(windows).count(store="counts")
    ticked.group_by_key().windowed_by(windows).count(store="final", emit="close", late="kept")
    near = JoinWindows.symmetric(timedelta(milliseconds=10))
    ticked.join(ticked, lambda a, b: a, windows=near, name="near", key=str, value=str)
    ticked.to("out")


def answer(failed: FailedRecord) -> Decision:
    if failed.key == b"again" and failed.attempt == 1:
        return Decision(Action.RETRY, timedelta(seconds=1))  # what follows waits meanwhile
    return (dead_letter if failed.key == b"dead" else skip)(failed)


def test_each_of_them_has_a_series_before_anything_is_processed() -> None:
    rig = WorkerRig(cluster_of({"in": 1, "out": 1}), everything, name="one").start().until_running()
    rig.observer.refresh(rig.observer.tasks)
    found = rig.observer.metrics.snapshot()
    assert {metric.name for metric in CATALOGUE} - found.keys() == set()
    counted = {
        name: one["labels"]
        for name, metric in found.items()
        if metric["kind"] == "counter"
        for one in metric["series"]
        if one["value"]
    }
    assert counted.keys() <= {"task_created_total", "rebalance_total", "commit_total"}, counted


def test_each_of_them_moves_in_the_life_of_a_worker() -> None:
    cluster = cluster_of({"in": 1, "out": 1, "dead": 1})
    handlers = ErrorHandlers(processing=answer, dead_letter_topic="dead")
    moved: set[str] = set()

    def watched(name: str) -> WorkerRig:
        rig = WorkerRig(
            cluster,
            everything,
            name=name,
            error_handlers=handlers,
            checkpoint_interval_ms=1,
            on_data_loss="continue",
        )

        def check(step: Step) -> None:
            rig.observer.refresh(rig.observer.tasks)
            for metric, found in rig.observer.metrics.snapshot().items():
                if any(one.get("value") or one.get("count") for one in found["series"]):
                    moved.add(metric)

        rig.before = check
        return rig.start()

    one = watched("one").until_running()
    send(cluster, "a", "skipped", "dead", "again", *"bcdefghijklmnopq")
    cluster.produce("in", b"late", b"late", timestamp=1)
    send(cluster, "r")
    for _ in range(5):
        one.commit()
        one.clock.advance(3_000)
    group = cluster.group("app")
    group.leave(next(iter(group.members)))  # thrown out: its partitions are lost
    one.turn(3)
    one.stop()
    send(cluster, "s", "t")
    cluster.log(TopicPartition("in", 0)).delete_before(-1)
    two = watched("two")
    two.until_running()
    two.stop()

    # A wait needs two inputs: tests/unit/logstate/worker/test_input_wait.py.
    assert {metric.name for metric in CATALOGUE} - moved == {"input_wait_ms"}
