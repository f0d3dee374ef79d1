"""The state that a test driver leaves in its ``state_dir`` for the next one.

No broker outlives a driver, so the driver saves what brokers would keep: changelogs, offsets and
clocks of the last commit, and the manifest, with which the next topology is compared like at a
start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from logstate.contracts.compatibility import MigrationOptions
from logstate.contracts.errors import StateDirectoryError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.contracts.topic_names import changelog_topic
from logstate.restore.restore_plan import clocks_under_new_names
from logstate.task.queues import PartitionQueue
from logstate.task.task import Task
from logstate.testing.driver_log import DriverLog
from logstate.testing.fake.fetched import StoredRecord
from logstate.testing.recovery_point import RecoveryPoint
from logstate.topics.manifest_changes import manifest_changes, renames
from logstate.topics.preview import manifest_of_one_partition
from logstate.topics.upgrade import check
from logstate.topology.plan.plan import Topology

_NAME: Final = "driver.msgpack"


class DriverFile(msgspec.Struct):
    """The file; times in ms."""

    manifest: dict[str, Any]
    wall_clock: int
    clocks: dict[str, int]
    partition_times: list[tuple[str, int, int]]
    consumed: list[tuple[str, int, int]]
    next_offsets: dict[str, int]
    inputs: dict[str, list[ProducedRecord]]
    changelogs: dict[str, list[ProducedRecord]]

    @classmethod
    def of(
        cls, topology: Topology, task: Task, log: DriverLog, point: RecoveryPoint, wall_clock: int
    ) -> DriverFile:
        """Return the complete state of a driver at its last commit."""
        offsets = dict(point.log.next_offsets)
        return cls(
            manifest_of_one_partition(topology, task.application_id),
            wall_clock,
            point.clocks,
            [(*tp, time) for tp, time in point.partition_times.items()],
            [(*tp, offset) for tp, offset in point.consumed.items()],
            offsets,
            {topic: records[: offsets.get(topic, 0)] for topic, records in log.inputs.items()},
            dict(log.changelogs),
        )

    @classmethod
    def read(cls, state_dir: Path | None) -> DriverFile | None:
        """Return the file of an earlier driver, if there is one."""
        path = None if state_dir is None else state_dir / _NAME
        if path is None or not path.is_file():
            return None
        return msgspec.msgpack.decode(path.read_bytes(), type=cls)

    def write(self, state_dir: Path) -> None:
        """Write it atomically, so that a partial file is never read."""
        state_dir.mkdir(parents=True, exist_ok=True)
        fresh = state_dir / f".{_NAME}"
        fresh.write_bytes(msgspec.msgpack.encode(self))
        fresh.replace(state_dir / _NAME)

    def upgraded(
        self, topology: Topology, application_id: str, decisions: MigrationOptions
    ) -> DriverFile:
        """Return it for the next topology; raise UpgradeError if that does not fit."""
        declared = manifest_of_one_partition(topology, application_id)
        moved = renames(self.manifest, declared, decisions)
        stored = {**self.manifest, "stores": _under_new_names(self.manifest["stores"], moved)}
        check(application_id, manifest_changes(stored, declared, decisions))
        topics = {
            changelog_topic(application_id, old): changelog_topic(application_id, new)
            for old, new in moved.items()
        }
        return msgspec.structs.replace(
            self,
            clocks=dict(
                clocks_under_new_names(self.clocks, {new: [old] for old, new in moved.items()})
            ),
            changelogs={topics.get(name, name): log for name, log in self.changelogs.items()},
        )

    def fill(self, log: DriverLog) -> None:
        """Fill in what brokers would have kept."""
        log.next_offsets.update(self.next_offsets)
        log.inputs.update(self.inputs)
        log.changelogs.update(self.changelogs)

    def restore(self, task: Task, topology: Topology, log: DriverLog) -> None:
        """Bring a new task to the state in which the earlier driver ended."""
        check_closed(task, self.changelogs)
        consumed = _by_partition(self.consumed, task)
        RecoveryPoint(
            log.mark(),
            self.clocks,
            _by_partition(self.partition_times, task),
            consumed,
            Counter(),
            {tp: PartitionQueue(tp, offset) for tp, offset in consumed.items()},
            task.order.snapshot(),
        ).restore(task, topology, log)
        for tp in task.partitions:
            self._deliver_again(task, tp)

    def _deliver_again(self, task: Task, partition: TopicPartition) -> None:
        """Deliver the pending records of an internal topic, as a consumer would read them again."""
        first = task.consumed.get(partition, 0)
        waiting = self.inputs.get(partition.topic, [])[first:]
        task.add_records(
            partition,
            [
                StoredRecord(*partition, first + number, r.key, r.value, r.timestamp, r.headers)
                for number, r in enumerate(waiting)
            ],
        )


def check_closed(task: Task, changelogs: Mapping[str, list[ProducedRecord]]) -> None:
    """Raise StateDirectoryError if rows are newer than the saved changelogs."""
    for store, position in task.state.positions.items():
        log = changelogs.get(changelog_topic(task.application_id, store), [])
        if position > len(log) and task.state.specs[store].source_topic is None:
            raise StateDirectoryError(
                f"store {store!r} has rows up to offset {position} of its changelog, of which"
                f" {len(log)} records were saved: the driver that used this state_dir"
                " before was not closed. Use it in a with-statement, or start with another"
                " directory"
            )


def _under_new_names(
    stores: Mapping[str, dict[str, Any]], moved: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Rename the changelogs with their stores, so comparisons do not report them."""
    return {
        moved.get(name, name): {**entry, "changelog_topic": None} if name in moved else entry
        for name, entry in stores.items()
    }


def _by_partition(given: list[tuple[str, int, int]], task: Task) -> dict[TopicPartition, int]:
    found = {TopicPartition(topic, partition): value for topic, partition, value in given}
    return {tp: value for tp, value in found.items() if tp in task.queues}
