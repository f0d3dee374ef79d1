"""An example on a broker: its input, its instances, and kills of one of them meanwhile."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from logstate.contracts.clients import NewTopic
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.broker.committed import committed_records
from tests.broker.patient_offsets import committed_offsets
from tests.campaigns.toolkit.process import kill, start_module, terminate
from tests.patience import until

PARTITIONS = 3
#: key, value and timestamp of a record, as bytes
Entry = tuple[bytes | None, bytes | None, int]


class ExampleRun:
    """``topics`` are made, without the prefix; for ``module`` see ``example_instance``."""

    #: further arguments of instances that start, such as ``--serve``
    arguments: Sequence[str] = ()

    def __init__(
        self,
        module: str,
        bootstrap: str,
        name: str,
        path: Path,
        topics: Sequence[str],
        partitions: int = PARTITIONS,
    ) -> None:
        self._partition_count = partitions
        self.bootstrap, self.name, self._module, self._path = bootstrap, name, module, path
        self._cluster = KafkaCluster(bootstrap)
        self._producer, self._admin = self._cluster.plain_producer(), self._cluster.admin()
        self._instances: dict[int, subprocess.Popen[bytes]] = {}
        self._logged_before: dict[int, int] = {}
        self._admin.create_topics([NewTopic(f"{name}-{one}", partitions, 1, {}) for one in topics])

    # ------------------------------------------------------------------ instances

    def start(self, number: int) -> None:
        log = self._log_path(number)
        self._logged_before[number] = log.stat().st_size if log.exists() else 0
        self._instances[number] = start_module(
            "tests.broker.example_instance",
            *(self._module, self.bootstrap, self.name, self._state_dir(number)),
            *self.arguments,
            log=log,
        )

    def kill(self, number: int, *, loses_disk: bool = False) -> None:
        kill(self._instances.pop(number))
        if loses_disk:
            shutil.rmtree(self._state_dir(number), ignore_errors=True)

    def stop(self) -> None:
        """End all instances in order; each has to end with status 0.

        An instance that was just started may still import its modules, and SIGTERM would end it as
        any process: it gets the signal once the application runs.
        """
        for number, process in self._instances.items():
            until(partial(self._handles_signals, number), partial(self._log, number))
            status = terminate(process)
            assert status == 0, f"status {status}: {self._log(number)}"
        self._instances.clear()

    def close(self) -> None:
        for number in list(self._instances):
            self.kill(number)
        self._producer.close()
        self._admin.close()

    def _state_dir(self, number: int) -> Path:
        return self._path / f"instance-{number}"

    def _log_path(self, number: int) -> Path:
        return self._path / f"instance-{number}.log"

    def _log(self, number: int) -> str:
        return self._log_path(number).read_text()[-4_000:]

    def _handles_signals(self, number: int) -> bool:
        """Whether an instance has come to the state after its first, or has ended."""
        logged = self._log_path(number).read_bytes()[self._logged_before[number] :]
        return b" starting -> " in logged or self._instances[number].poll() is not None

    # ------------------------------------------------------------------ records

    def send(self, records: Sequence[tuple[str, Entry]]) -> None:
        """Write records to topics, in order, and wait until the broker has them."""
        self._producer.produce(
            [
                ProducedRecord(f"{self.name}-{topic}", None, key, value, time_ms)
                for topic, (key, value, time_ms) in records
            ]
        )
        self._producer.flush()

    def read(self, topic: str) -> list[Entry]:
        """Return the committed records of a topic, up to its present end."""
        records = committed_records(self.bootstrap, *self._partitions(topic))
        return [(one.key(), one.value(), one.timestamp()[1]) for one in records]

    def _partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(f"{self.name}-{topic}", p) for p in range(self._partition_count)]

    def send_with_kills(
        self,
        records: Sequence[tuple[str, Entry]],
        kills: int,
        seed: int,
        between: Callable[[int], object] = lambda _: None,
    ) -> None:
        """Write all records in parts, and kill an instance while each but the last is processed.

        The kill comes when the first records of a part are committed. Every second one loses the
        disk. The instance starts again, and ``between`` is called with the number of the kill.
        """
        rng, size = random.Random(seed), len(records) // (kills + 1) + 1
        inputs = [tp for topic in {topic for topic, _ in records} for tp in self._partitions(topic)]
        for number, start in enumerate(range(0, len(records), size)):
            before = self._consumed(inputs)
            self.send(records[start : start + size])
            if number < kills:
                until(partial(self._has_grown, inputs, before), "no offset is committed")
                victim = rng.choice(sorted(self._instances))
                self.kill(victim, loses_disk=number % 2 == 1)
                self.start(victim)
                between(number)

    def _has_grown(self, inputs: Sequence[TopicPartition], before: int) -> bool:
        return self._consumed(inputs) > before

    def _consumed(self, inputs: Sequence[TopicPartition]) -> int:
        """Return the number of records of input partitions that the application has committed."""
        found = committed_offsets(self._admin, self.name, inputs)
        return sum(one.offset or 0 for one in found.values())


@contextmanager
def running(
    module: str,
    bootstrap: str,
    name: str,
    path: Path,
    topics: Sequence[str],
    instances: int = 1,
    partitions: int = PARTITIONS,
) -> Iterator[ExampleRun]:
    """A run whose instances are gone at the end, however it ends."""
    run = ExampleRun(module, bootstrap, name, path, topics, partitions)
    try:
        for number in range(instances):
            run.start(number)
        yield run
    finally:
        run.close()
