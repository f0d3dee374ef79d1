"""An application with one store, its changelog, and ways to harm both."""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import msgspec

from logstate.app.application import Application
from logstate.changelog.backend.rocks import RocksBackend
from logstate.changelog.stored_meta import StoredMeta
from logstate.contracts.clients import Cluster, NewTopic
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.restore.restore import RestoreProgress
from logstate.topology import StreamsBuilder
from logstate.topology.plan.plan import Topology
from tests.patience import PATIENCE_S, until
from tests.restore_fixtures.world import World

#: a restore of a few records that takes longer hangs
DEADLINE = timedelta(seconds=PATIENCE_S)
_META = b"\x00meta"


@dataclass(frozen=True)
class Restored:
    """What a start found and did."""

    rows: dict[str, str]
    #: changelog records that were replayed
    records: int
    #: everything the engine logged
    said: str

    @property
    def was_rebuilt(self) -> bool:
        return "its local state is rebuilt" in self.said


class Listening(logging.Handler):
    """Keeps what the engine says."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def restored_records(self) -> int:
        words = [line.split() for line in self.lines if ": restored " in line]
        return sum(int(w[w.index("restored") + 1]) for w in words)


class Bench:
    """One application: the last value of each key, in store ``latest``."""

    def __init__(self, world: World, path: Path, *, partitions: int = 1) -> None:
        self.world = world
        self.path = path
        self.partitions = partitions
        self.name = f"restore-{uuid.uuid4().hex[:10]}"
        self.inputs = f"{self.name}-inputs"
        self.changelog = TopicPartition(f"{self.name}-latest-changelog", 0)
        self.topic_config: dict[str, str] = {}
        self._closing = ExitStack()
        world.is_patient_with(self.name)
        self.admin = world.cluster.admin()
        self._closing.callback(self.admin.close)
        self.admin.create_topics([NewTopic(self.inputs, partitions, 1, {})])
        self._feeder = world.cluster.plain_producer()
        self._closing.callback(self._feeder.close)
        self.log = Listening()
        logger = logging.getLogger("logstate")
        logger.addHandler(self.log)
        level = logger.level
        logger.setLevel(logging.INFO)
        self._closing.callback(logger.setLevel, level)
        self._closing.callback(logger.removeHandler, self.log)

    def close(self) -> None:
        self._closing.close()

    def create_changelog(self, config: Mapping[str, str]) -> None:
        """Before the application does, which would not give it every configuration."""
        topic = NewTopic(self.changelog.topic, self.partitions, 1, dict(config))
        self.admin.create_topics([topic])

    # ------------------------------------------------------------------ running

    def topology(self) -> Topology:
        builder = StreamsBuilder()
        inputs = builder.stream(self.inputs, key=str, value=str)
        inputs.group_by_key().reduce(lambda _, new: new, store="latest")
        return builder.build()

    def application(
        self,
        disk: str = "disk",
        *,
        cluster: Cluster | None = None,
        checkpoint_interval: timedelta = timedelta(milliseconds=1),
        listener: Callable[[RestoreProgress], None] | None = None,
    ) -> Application:
        return Application(
            self.topology(),
            application_id=self.name,
            bootstrap="given-by-cluster",
            state_dir=self.path / disk,
            commit_interval=timedelta(milliseconds=10),
            checkpoint_interval=checkpoint_interval,
            topic_config=self.topic_config,
            restore_listener=listener,
            cluster=cluster or self.world.cluster,
        )

    def process(self, app: Application, rows: Mapping[str, str]) -> None:
        """Feed inputs and return when all are committed; the application runs already."""
        self._feeder.produce(
            [ProducedRecord(self.inputs, None, k.encode(), v.encode(), 1) for k, v in rows.items()]
        )
        self._feeder.flush()

        def are_there() -> bool:
            try:
                found = {key: app.store("latest").get(key) for key in rows}
            except StoreUnavailableError:
                return False
            return all(row is not None and row.value == rows[key] for key, row in found.items())

        self.eventually(are_there)

    def run(self, rows: Mapping[str, str], disk: str = "disk") -> None:
        """Start, process, stop in order."""
        with self.application(disk) as app:
            app.wait_until_running(DEADLINE)
            self.process(app, rows)

    def restore(
        self, disk: str = "disk", *, meanwhile: Callable[[Application], object] = lambda _: None
    ) -> Restored:
        """Start with a disk, look, stop. ``meanwhile``: what is done while it starts."""
        del self.log.lines[:]
        with self.application(disk) as app:
            meanwhile(app)
            app.wait_until_running(DEADLINE)
            rows = {key: row.value for key, row in app.store("latest").all()}
            self.process(app, {"alive": "yes"})  # it does not only restore, it works
        return Restored(rows, self.log.restored_records(), self.log.text)

    def eventually(self, is_true: Callable[[], bool]) -> None:
        """Wait for a condition."""
        until(is_true, lambda: f"it never happened; {self.log.text}")

    # ------------------------------------------------------------------ the disk

    def lose_disk(self, disk: str = "disk") -> None:
        shutil.rmtree(self.path / disk)

    def copy_disk(self, copy: str, disk: str = "disk") -> None:
        """What a killed process leaves, if it is killed now."""
        shutil.copytree(self.path / disk, self.path / copy)

    def shift_stored_position(self, by: int, disk: str = "disk") -> None:
        """Make the local store believe it has seen more (or less) of its changelog."""
        backend = RocksBackend(self.path / disk / self.name / "0_0")
        meta = msgspec.msgpack.decode(backend.get(_META) or b"", type=StoredMeta)
        meta.positions["latest"] += by
        backend.write({_META: msgspec.msgpack.encode(meta)})
        backend.close()

    # ------------------------------------------------------------------ the changelog

    def end(self) -> int:
        return self.admin.end_offsets([self.changelog])[self.changelog]

    def start(self) -> int:
        return self.admin.start_offsets([self.changelog])[self.changelog]

    def write_plain(self, records: list[ProducedRecord]) -> None:
        """Records outside transactions."""
        producer = self.world.cluster.plain_producer()
        producer.produce(records)
        producer.flush()
        producer.close()

    def logged(self, key: str, value: str | None, partition: int = 0) -> ProducedRecord:
        """A changelog record."""
        data = None if value is None else value.encode()
        return ProducedRecord(self.changelog.topic, partition, key.encode(), data, 1)

    def read_log(self) -> list[tuple[int, str, str | None]]:
        """(offset, key, value) of the committed records in the changelog."""
        end, found = self.end(), []
        consumer = self.world.cluster.log_consumer()
        consumer.assign({self.changelog: self.start()})
        self._closing.callback(consumer.close)

        def is_at_end() -> bool:
            for record in consumer.poll(1_000, 0.1).records.get(self.changelog, []):
                value = record.value()
                text = None if value is None else value.decode()
                found.append((record.offset() or 0, (record.key() or b"").decode(), text))
            return (consumer.position(self.changelog) or 0) >= end

        self.eventually(is_at_end)
        return found
