"""Whether an application has processed what its inputs had at a moment.

The moment is the first look at the brokers. The ends of the inputs there are the targets, and a
partition is done when committed rows include every record before its target. By then the results
for repartition topics are committed too, and the ends of those are the next targets; and so on,
once per repartition topic that a record can pass.

Rules:

- Every partition counts, whichever instance has it: rows of this instance depend on the others
  through repartition topics, and partitions may move during the wait. Positions of tasks here are
  those of the rows that reads see; positions of other tasks are the committed offsets.
- An input ends at its last stable offset: records of open transactions are not there yet. A
  repartition topic ends at the end of its log, because another worker's open transaction can be
  before committed records.
- Transaction markers are offsets without a record, and a task does not commit for them alone: the
  rest of a partition that makes no progress is read, to see whether it has records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

from logstate.app.instance.reports import TaskReport
from logstate.contracts.clients import Admin, Cluster, LogConsumer
from logstate.contracts.clock import SystemClock
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import TopicPartition
from logstate.topics.manifest_log import newest_manifest

_POLL_S = 0.1
#: partitions in an error message
_SHOWN = 5


class Behind(NamedTuple):
    """A partition that is not done."""

    partition: TopicPartition
    #: the task of this instance that reads it
    task: str | None
    #: the first offset that the committed rows do not include
    position: int
    target: int

    def __str__(self) -> str:
        where = "not of this instance" if self.task is None else f"task {self.task}"
        lag = self.target - self.position
        return f"{self.partition} ({where}): lag {lag}, at offset {self.position} of {self.target}"


class CatchUp:
    """Compares positions with targets, on a separate thread: a slow broker delays no time-out."""

    def __init__(
        self,
        application_id: str,
        cluster: Cluster,
        reports: Callable[[], Mapping[str, TaskReport]],
    ) -> None:
        self._id = application_id
        self._cluster = cluster
        self._reports = reports
        self._admin: Admin | None = None
        #: every partition that the application reads, and those of them between sub-topologies
        self._partitions: list[TopicPartition] = []
        self._between: list[TopicPartition] = []
        self._targets: dict[TopicPartition, int] = {}
        #: how many more times records may pass a repartition topic
        self._hops = 0
        self._rest = UnreadRest(cluster)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="logstate-catch-up")
        self._pending: Future[bool] | None = None
        #: the partitions that were not done at the last look
        self._behind: list[Behind] = []
        self._trouble = "the brokers have not answered yet"

    def is_done(self, within_s: float) -> bool:
        """Return whether a look at the brokers that ends in time finds everything done.

        An error of the brokers is shown by ``text``; the next call looks again.
        """
        self._pending = self._pending or self._thread.submit(self._check_ends)
        with suppress(TimeoutError):
            is_done = self._pending.result(within_s)
            self._pending = None
            return is_done
        return False

    def close(self) -> None:
        """Release the clients after the current look, without waiting for it."""
        self._thread.submit(self._close)
        self._thread.shutdown(wait=False)

    def _close(self) -> None:
        self._rest.close()
        if self._admin is not None:
            self._admin.close()

    def text(self) -> str:
        """Describe what is not done."""
        if self._trouble:
            return self._trouble
        behind = self._behind
        more = len(behind) - _SHOWN
        shown = [str(one) for one in behind[:_SHOWN]]
        return "; ".join([*shown, f"and {more} more partitions"] if more > 0 else shown)

    def _check_ends(self) -> bool:
        try:
            is_done = self._compare_positions()
        except LogstateError as error:
            self._trouble = str(error)
            return False
        self._trouble = ""
        return is_done

    def _compare_positions(self) -> bool:
        admin = self._admin = self._admin or self._cluster.admin()
        if not self._targets:
            self._find_targets(admin)
        tasks, positions = self._positions(admin)
        self._behind = self._not_done(tasks, positions)
        if not self._behind and self._hops:
            # The positions are older than these ends: if they are enough, no record is on its way.
            self._hops -= 1
            self._targets |= admin.end_offsets(self._between)
            self._behind = self._not_done(tasks, positions)
        return not self._behind

    def _find_targets(self, admin: Admin) -> None:
        stored = newest_manifest(self._id, self._cluster, admin, SystemClock()) or {}
        between = set(stored.get("topics", {}))
        found = admin.describe_topics(sorted({*stored.get("inputs", ()), *between}))
        self._partitions = [
            TopicPartition(name, number)
            for name, topic in sorted(found.items())
            for number in range(topic.partitions)
        ]
        self._between = [tp for tp in self._partitions if tp.topic in between]
        outside = [tp for tp in self._partitions if tp.topic not in between]
        self._hops = len(between)
        self._targets = admin.stable_offsets(outside)
        if self._between:
            self._targets |= admin.end_offsets(self._between)

    def _positions(
        self, admin: Admin
    ) -> tuple[dict[TopicPartition, str], dict[TopicPartition, int]]:
        """Return the tasks of partitions here, and the position of every partition."""
        here = {
            partition: (task, position)
            for task, report in self._reports().items()
            for partition, position in report.positions.items()
        }
        tasks, positions = dict[TopicPartition, str](), dict[TopicPartition, int]()
        for partition in self._partitions:
            if str(partition) in here:
                tasks[partition], positions[partition] = here[str(partition)]
        others = [partition for partition in self._partitions if partition not in positions]
        if others:
            committed = admin.committed_so_far(self._id, others)
            positions |= {tp: one.offset for tp, one in committed.items() if one.offset is not None}
        new = [partition for partition in others if partition not in positions]
        return tasks, positions | (admin.start_offsets(new) if new else {})

    def _not_done(
        self, tasks: Mapping[TopicPartition, str], positions: Mapping[TopicPartition, int]
    ) -> list[Behind]:
        found = [
            Behind(partition, tasks.get(partition), positions[partition], target)
            for partition, target in self._targets.items()
            if positions[partition] < target
        ]
        return self._rest.with_records(found)


class UnreadRest:
    """Reads what is between a position and a target, to see whether that has records."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._consumer: LogConsumer | None = None
        #: the positions of the last look
        self._positions: dict[TopicPartition, int] = {}
        #: where reading began
        self._starts: dict[TopicPartition, int] = {}
        #: partition -> offset of a record that is not processed
        self._records: dict[TopicPartition, int] = {}
        #: partition -> the position and the offset up to which it has no records
        self._empty: dict[TopicPartition, tuple[int, int]] = {}

    def with_records(self, behind: list[Behind]) -> list[Behind]:
        """Return those of the partitions that may have unprocessed records before their targets."""
        still = {
            one.partition: one.position
            for one in behind
            if self._positions.get(one.partition) == one.position
            and self._records.get(one.partition, -1) < one.position
            and not self._is_empty(one)
        }
        self._positions = {one.partition: one.position for one in behind}
        if still:
            self._read(still)
        return [one for one in behind if not self._is_empty(one)]

    def close(self) -> None:
        """Release the consumer."""
        if self._consumer is not None:
            self._consumer.close()

    def _is_empty(self, one: Behind) -> bool:
        position, end = self._empty.get(one.partition, (0, 0))
        return position <= one.position and one.target <= end

    def _read(self, positions: Mapping[TopicPartition, int]) -> None:
        consumer = self._consumer = self._consumer or self._cluster.log_consumer()
        consumer.assign(
            {
                tp: (consumer.position(tp) or start) if self._starts.get(tp) == start else start
                for tp, start in positions.items()
            }
        )
        self._starts = dict(positions)
        polled = consumer.poll(1, _POLL_S)
        for partition, start in positions.items():
            records = polled.records.get(partition)
            end = records[0].offset() if records else consumer.position(partition)
            if end is not None:
                self._empty[partition] = start, end
            if records and end is not None:
                self._records[partition] = end
