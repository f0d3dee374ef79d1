"""Where the time of the logstate side goes: CPU per record and stage, in one process.

    python -m tests.performance.stages W2 --emit commit --records 200000

One task reads prepared records; the client writes to a broker that librdkafka mocks inside the
process. Only the CPU time of the engine's own thread counts, so a busy machine disturbs little;
what the client's threads do (compressing, sending) is not in it. The smallest of several rounds is
printed, in nanoseconds per input record:

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
from typing import Any

from confluent_kafka import Message, Producer

from logstate.bound_plan import BoundPlan, bind
from logstate.clock import SystemClock
from logstate.commit import Committer
from logstate.kafka.cluster import KafkaCluster
from logstate.owned_task import OwnedTask, Stage
from logstate.records import ProducedRecord, TaskId, TopicPartition
from logstate.seams import TopicDescription, run_steps
from logstate.state_factory import open_task_state
from logstate.task import Task
from logstate.transaction import Transactions
from tests.performance.events import Event, key_name, write_events
from tests.performance.logstate_peer import topology
from tests.performance.settings import PARTITIONS
from tests.performance.workload import WORKLOADS

_BATCH = 2_000
#: input records between two commits: a second's worth
_COMMIT_RECORDS = 100_000
_APPLICATION = "stages"
_INPUT, _TABLE, _OUTPUT = "in", "users", "out"
_STAGES = ("queue", "process", "send", "produce", "commit", "apply")


class Stopwatch:
    """CPU time of this thread, added up by name."""

    def __init__(self) -> None:
        self.ns: dict[str, int] = dict.fromkeys(_STAGES, 0)

    def timed(self, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call, and add what it took; what a call inside it took is not counted twice."""
        inside = self.ns["produce"]
        started = time.thread_time_ns()
        try:
            return call(*arguments)
        finally:
            took = time.thread_time_ns() - started
            self.ns[name] += took - (self.ns["produce"] - inside)


class Round:
    """One task, from its first record to its last commit."""

    def __init__(self, plan: BoundPlan, cluster: KafkaCluster, path: Path) -> None:
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
        self.committer = Committer(plan, self.consumer, self.transactions, self.outputs)
        self.committer.joined()
        self.epochs = dict.fromkeys(self.task.partitions, 1)

    def _time_produce(self, producer: Any) -> None:
        produce = producer.produce

        def timed(records: Sequence[ProducedRecord]) -> None:
            self.watch.timed("produce", produce, records)

        producer.produce = timed

    def run(self, inputs: Mapping[TopicPartition, Sequence[Message]]) -> None:
        """Read everything; the last of the inputs is the one that is measured."""
        *tables, (stream, records) = inputs.items()
        for partition, rows in tables:
            self.task.at_end(stream, 0)
            self.task.add_records(partition, rows)
            self._process(len(rows))
            self.task.at_end(partition, len(rows))
            self._commit()
            self.watch.ns = dict.fromkeys(_STAGES, 0)
        for first in range(0, len(records), _BATCH):
            batch = records[first : first + _BATCH]
            self.watch.timed("queue", self.task.add_records, stream, batch)
            self._process(_BATCH)
            if (first + _BATCH) % _COMMIT_RECORDS == 0:
                self._commit()
        self._commit()
        self.watch.timed("apply", self.task.state.apply)

    def _process(self, limit: int) -> None:
        self.watch.timed("process", self.task.process, limit)
        outputs = self.task.outputs.copy()
        self.task.outputs.clear()
        self.watch.timed("send", run_steps, self.committer.send_outputs(outputs))

    def _commit(self) -> None:
        self.watch.timed("commit", run_steps, self.committer.commit([self.owned], self.epochs))

    def close(self) -> None:
        """End everything."""
        self.task.close()
        run_steps(self.transactions.close())
        self.outputs.close()
        self.consumer.close()


def messages(topic: str, events: Sequence[tuple[str, bytes, int]]) -> list[Message]:
    """Records as the client returns them; all in partition 0."""
    return [
        Message(  # type: ignore[call-arg]
            topic=topic, partition=0, offset=offset, key=key.encode(), value=value,
            timestamp=(1, timestamp),
        )
        for offset, (key, value, timestamp) in enumerate(events)
    ]  # fmt: skip


def prepared_inputs(
    program: str, records: int, keys: int
) -> dict[TopicPartition, Sequence[Message]]:
    """The records of partition 0: the table's first, where there is one."""
    events: list[Event] = []
    expected, _ = write_events(records, keys, "", events.append)
    inputs: dict[TopicPartition, Sequence[Message]] = {}
    if program == "join":
        before_ms = expected.base_ms - 3_600_000
        rows = [
            (key_name(n), f'{{"name":"User {n:06d}","country":"07"}}'.encode(), before_ms)
            for n in range(keys)
        ]
        inputs[TopicPartition(_TABLE, 0)] = messages(_TABLE, rows)
    of_stream = [(event.key, event.value, event.timestamp) for event in events]
    inputs[TopicPartition(_INPUT, 0)] = messages(_INPUT, of_stream)
    return inputs


def mocked_broker(topics: Sequence[str]) -> tuple[Producer, str]:
    """A broker inside this process with these topics; it ends with the producer that has it."""
    owner = Producer({"bootstrap.servers": "mocked", "test.mock.num.brokers": 1})
    for topic in topics:
        owner.list_topics(topic, timeout=10)
    (address,) = (f"{b.host}:{b.port}" for b in owner.list_topics(timeout=10).brokers.values())
    return owner, address


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workload", choices=("W1", "W2", "W4", "W5"))
    parser.add_argument("--emit", choices=("update", "commit"), default="update")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--keys", type=int, default=25_000, help="of one partition of four")
    parser.add_argument("--rounds", type=int, default=3)
    a = parser.parse_args()
    program = WORKLOADS[a.workload].program
    names = {"workload": program, "inp": _INPUT, "out": _OUTPUT, "table": _TABLE}
    made = topology(argparse.Namespace(**names, emit=a.emit))
    counts = {_INPUT: PARTITIONS, _OUTPUT: PARTITIONS, _TABLE: PARTITIONS}
    described = {t: TopicDescription(f"id-of-{t}", count) for t, count in counts.items()}
    plan = bind(made, _APPLICATION, described)
    inputs = prepared_inputs(program, a.records, a.keys)
    changelogs = [t for spec in made.stores.values() if (t := plan.changelog_topic(spec))]
    # A collection must not look at the inputs: a broker hands out a fetch at a time.
    gc.collect()
    gc.freeze()
    best: dict[str, int] = {}
    for _ in range(a.rounds):
        owner, address = mocked_broker([*counts, *changelogs])
        path = Path(tempfile.mkdtemp(prefix="logstate-stages-"))
        one = Round(plan, KafkaCluster(address), path)
        one.run(inputs)
        one.close()
        owner.purge()
        shutil.rmtree(path)
        for name, ns in one.watch.ns.items():
            best[name] = min(best.get(name, ns), ns)
    figures = "  ".join(f"{name} {ns / a.records:6.0f}" for name, ns in best.items())
    total = sum(best.values()) / a.records
    print(f"{a.workload} {a.emit}: {figures}  total {total:6.0f} ns per record", flush=True)


if __name__ == "__main__":
    main()
