"""Where the time of the logstate side goes: CPU per record and stage, in one process.

    python -m tests.performance.stages W2 --emit commit --records 200000

One task reads prepared records; the client writes to a broker that librdkafka mocks inside the
process. Only the CPU time of the engine's own thread counts; what the client's threads do
(compressing, sending) is not in it. A busy machine makes the same code take three times as long, so
a fixed piece of work is timed around every call, and what the call took is divided by how slow the
machine was just then. Every round makes the same calls over the same records; of each call the
median round counts. Printed are nanoseconds per input record, as on a machine on which the fixed
piece takes its nominal time:

    queue     taking fetched records over
    process   decoding, operators, stores
    send      handing outputs over, without the client
    produce   the client's produce() of outputs and changelog records
    commit    everything else of the commits, without waiting for the broker's answers
    apply     writing committed rows to RocksDB
"""

from __future__ import annotations

import argparse
import gc
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from confluent_kafka import Message, Producer

from logstate.changelog.task_state import open_task_state
from logstate.commit.commit import Committer
from logstate.commit.transaction import Transactions
from logstate.contracts.clients import TopicDescription, run_steps
from logstate.contracts.clock import SystemClock
from logstate.contracts.records import ProducedRecord, TaskId, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.task import Task
from logstate.topics.bound_plan import BoundPlan, bind
from logstate.worker.gc_tuner import gc_tuner
from tests.performance.events import Event, key_name, write_events
from tests.performance.logstate_peer import topology
from tests.performance.parser import parser_of
from tests.performance.settings import PARTITIONS
from tests.performance.workload import WORKLOADS

_BATCH = 2_000
#: input records between two commits: a second's worth
_COMMIT_RECORDS = 100_000
_PACE_STEPS = 2_000
#: what one step takes on the idle machine of docs/benchmarks.md
_NOMINAL_STEP_NS = 60
_APPLICATION = "stages"
_INPUT, _TABLE, _OUTPUT = "in", "users", "out"
_STAGES = ("queue", "process", "send", "produce", "commit", "apply")

#: key, value, event time
Row: TypeAlias = tuple[bytes, bytes, int]


def _pace_ns() -> int:
    """CPU time of a fixed piece of work: dicts, tuples and calls, as in the engine."""
    started = time.thread_time_ns()
    rows: dict[int, tuple[int, str]] = {}
    for i in range(_PACE_STEPS):
        rows[i] = (i, "row")
        rows.get(i - 1)
    return time.thread_time_ns() - started


class Stopwatch:
    """CPU time of this thread, call by call."""

    def __init__(self) -> None:
        self._inside = 0
        self._depth = 0
        self._notes: list[tuple[str, int]] = []
        self._pace_ns = _pace_ns()
        #: nanoseconds of each call of a stage, in order, at nominal pace
        self.calls: dict[str, list[float]] = {name: [] for name in _STAGES}

    def timed(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call, and note what it took; what a timed call inside it took is not counted twice."""
        outer, self._inside = self._inside, 0
        self._depth += 1
        started = time.thread_time_ns()
        try:
            return call(*arguments)
        finally:
            took = time.thread_time_ns() - started
            self._notes.append((name, took - self._inside))
            self._inside = outer + took
            self._depth -= 1
            if self._depth == 0:
                self._take_notes()

    def _take_notes(self) -> None:
        before, self._pace_ns = self._pace_ns, _pace_ns()
        slowness = (before + self._pace_ns) / 2 / (_PACE_STEPS * _NOMINAL_STEP_NS)
        for name, took in self._notes:
            self.calls[name].append(took / slowness)
        self._notes.clear()

    def forget(self) -> None:
        """Start anew: what came before was preparation."""
        for calls in self.calls.values():
            calls.clear()


def usual(rounds: Sequence[Stopwatch]) -> dict[str, float]:
    """Nanoseconds by stage, of each call the median of the rounds."""
    return {
        name: sum(map(median, zip(*(watch.calls[name] for watch in rounds), strict=True)))
        for name in _STAGES
    }


class Round:
    """One task, from its first record to its last commit."""

    def __init__(
        self, plan: BoundPlan, cluster: KafkaCluster, path: Path, *, is_exactly_once: bool
    ) -> None:
        self.watch = Stopwatch()
        task_id = TaskId(0, 0)
        sub_topology = plan.sub_topology(task_id)
        self.task = Task(
            task_id,
            [sub_topology],
            plan.input_partitions(task_id),
            application_id=_APPLICATION,
            clock=SystemClock(),
            open_state=lambda task: open_task_state(sub_topology.stores, task, state_dir=path),
            partition_counts=plan.partition_counts,
        )
        self.task.start_at(dict.fromkeys(self.task.partitions, 0))
        self.owned = OwnedTask(task_id, self.task.partitions, 1, self.task)
        for stage in (Stage.RESTORING, Stage.STARTING, Stage.RUNNING):
            self.owned.move_to(stage)
        self.consumer = cluster.group_consumer(group_id=_APPLICATION, instance_id=None)
        self.transactions = Transactions(cluster, _APPLICATION)
        run_steps(self.transactions.initialise())
        self.outputs = cluster.plain_producer()
        for producer in (self.outputs, self.transactions._producer):
            self._time_produce(producer)
        plain = None if is_exactly_once else self.outputs
        self.committer = Committer(plan, self.consumer, self.transactions, plain)
        self.committer.joined()
        self.epochs = dict.fromkeys(self.task.partitions, 1)

    def _time_produce(self, producer: Any) -> None:
        produce = producer.produce

        def timed(records: Sequence[ProducedRecord]) -> None:
            self.watch.timed("produce", produce, records)

        producer.produce = timed

    def run(self, tables: Mapping[TopicPartition, Sequence[Row]], events: Sequence[Row]) -> None:
        """Read the tables, then the records of the stream, which are what is measured."""
        stream = TopicPartition(_INPUT, 0)
        for partition, rows in tables.items():
            self.task.at_end(stream, 0)
            self.task.add_records(partition, fetched(partition.topic, rows))
            self._process(len(rows))
            self.task.at_end(partition, len(rows))
            self._commit()
        self.watch.forget()
        for first in range(0, len(events), _BATCH):
            batch = fetched(_INPUT, events[first : first + _BATCH], first)
            self.watch.timed("queue", self.task.add_records, stream, batch)
            del batch  # as in the worker: records are freed one by one
            self._process(_BATCH)
            if (first + _BATCH) % _COMMIT_RECORDS == 0:
                self._commit()
        self._commit()
        self.watch.timed("apply", self.task.state.apply)

    def _process(self, limit: int) -> None:
        self.watch.timed("process", self.task.process, limit)
        outputs = self.task.outputs.copy()
        self.task.outputs.clear()
        self.watch.timed("send", run_steps, self.committer.output_buffer.send(outputs))

    def _commit(self) -> None:
        self.watch.timed("commit", run_steps, self.committer.commit([self.owned], self.epochs))

    def close(self) -> None:
        """End everything."""
        self.task.close()
        run_steps(self.transactions.close())
        self.outputs.close()
        self.consumer.close()


def fetched(topic: str, rows: Sequence[Row], first: int = 0) -> list[Message]:
    """Records of partition 0 as the client returns them, new ones each time."""
    return [
        Message(  # type: ignore[call-arg]
            topic=topic, partition=0, offset=offset, key=key, value=value, timestamp=(1, timestamp)
        )
        for offset, (key, value, timestamp) in enumerate(rows, first)
    ]


def table_rows(keys: int) -> list[Row]:
    """The rows of the joined table."""
    return [
        (key_name(n).encode(), f'{{"name":"User {n:06d}","country":"07"}}'.encode(), 1_000_000_000)
        for n in range(keys)
    ]


def mocked_broker(topics: Sequence[str]) -> tuple[Producer, str]:
    """A broker inside this process with these topics; it ends with the producer that has it."""
    owner = Producer({"bootstrap.servers": "mocked", "test.mock.num.brokers": 1})
    for topic in topics:
        owner.list_topics(topic, timeout=10)
    (address,) = (f"{b.host}:{b.port}" for b in owner.list_topics(timeout=10).brokers.values())
    return owner, address


def main() -> None:
    """The command line."""
    parser = parser_of("python -m tests.performance.stages", __doc__)
    parser.add_argument("workload", choices=("W1", "W2", "W3", "W4", "W5"))
    parser.add_argument("--emit", choices=("update", "commit"), default="update")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--keys", type=int, default=25_000, help="of one partition of four")
    parser.add_argument("--rounds", type=int, default=5)
    a = parser.parse_args()
    workload = WORKLOADS[a.workload]
    program = workload.program
    names = {"workload": program, "inp": _INPUT, "out": _OUTPUT, "table": _TABLE}
    made = topology(argparse.Namespace(**names, emit=a.emit))
    counts = {_INPUT: PARTITIONS, _OUTPUT: PARTITIONS, _TABLE: PARTITIONS}
    described = {t: TopicDescription(f"id-of-{t}", count) for t, count in counts.items()}
    plan = bind(made, _APPLICATION, described)
    events: list[Event] = []
    write_events(a.records, a.keys, "", events.append)
    rows = [(event.key.encode(), event.value, event.timestamp) for event in events]
    tables = {TopicPartition(_TABLE, 0): table_rows(a.keys)} if program == "join" else {}
    changelogs = [t for spec in made.stores.values() if (t := plan.changelog_topic(spec))]
    # A collection must not look at the inputs: a broker hands out a fetch at a time.
    gc.collect()
    gc.freeze()
    watches: list[Stopwatch] = []
    for _ in range(a.rounds):
        owner, address = mocked_broker([*counts, *changelogs])
        path = Path(tempfile.mkdtemp(prefix="logstate-stages-"))
        one = Round(plan, KafkaCluster(address), path, is_exactly_once=workload.is_exactly_once)
        with gc_tuner.rare():
            one.run(tables, rows)
        one.close()
        owner.purge()
        shutil.rmtree(path)
        watches.append(one.watch)
    best = usual(watches)
    figures = "  ".join(f"{name} {ns / a.records:5.0f}" for name, ns in best.items())
    total = sum(best.values()) / a.records
    print(f"{a.workload} {a.emit}: {figures}  total {total:5.0f} ns per record", flush=True)


if __name__ == "__main__":
    main()
