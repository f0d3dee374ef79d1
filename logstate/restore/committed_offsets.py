"""Read a task's committed offsets and cuts that are too long for offset metadata.

The coordinator does not return offsets that an open transaction may change: the request blocks the
worker thread and all its tasks. If no task runs, this does not matter. If tasks run, the first
request has a short timeout and each following one a longer timeout, because a slow broker must be
able to answer at all. Between two requests the tasks run for nine times as long as the last one
took.

A cut that is too long for the metadata of an offset is written to ``<application id>-cuts`` in the
same transaction. A task start with such a cut needs the record that matches the committed offset.
The topic is read forward as far as possible, once per turn and never again from its start; the last
record of each task is kept. A record behind an open transaction is read in a later turn.

Invariant: while tasks run, at most a tenth of the time is spent on unanswered requests.
"""

from __future__ import annotations

from collections.abc import Mapping

from logstate.changelog.cut import Cut, cut_key, decode_cut_record
from logstate.contracts.clients import Admin, Cluster, LogConsumer, Step, Steps
from logstate.contracts.clock import Clock
from logstate.contracts.errors import RestoreError, RetriableError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.topic_names import cuts_topic

#: timeout of a request if no task runs, and the maximum
LONGEST_S = 0.5
#: timeout of the first request if tasks run
_FIRST_S = 0.05
#: time for the tasks after an unanswered request, as a multiple of its duration
_REST = 9

_BATCH = 1_000
#: polls per turn; existing records arrive at once
_POLLS_MAX = 20
_POLL_S = 0.02


class RequestPace:
    """Limits how often and how long one worker requests committed offsets."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timeout_s = _FIRST_S
        self._began_ms = 0.0
        self._next_ms = float("-inf")

    def timeout_s(self, *, blocks_tasks: bool) -> float | None:
        """Return the timeout of a request now; None if it is too early for one.

        ``blocks_tasks``: tasks are running and would have to wait for the answer.
        """
        self._began_ms = self._clock.monotonic_ms()
        if not blocks_tasks:
            return LONGEST_S
        return self._timeout_s if self._began_ms >= self._next_ms else None

    def answered(self) -> None:
        """Reset the pace after an answer."""
        self._timeout_s = _FIRST_S
        self._next_ms = float("-inf")

    def unanswered(self) -> None:
        """Slow the pace after a timeout."""
        now = self._clock.monotonic_ms()
        self._next_ms = now + _REST * (now - self._began_ms)
        self._timeout_s = min(LONGEST_S, 2 * self._timeout_s)


class CutsReader:
    """Reads the cuts topic of an application for one worker."""

    def __init__(self, application_id: str, cluster: Cluster, admin: Admin) -> None:
        self._partition = TopicPartition(cuts_topic(application_id), 0)
        self._cluster = cluster
        self._admin = admin
        self._consumer: LogConsumer | None = None
        #: an unassigned consumer would never return a record
        self._is_assigned = False
        self._position = 0
        self._last: dict[bytes, bytes] = {}

    def cut_of(self, task_id: TaskId, topic: str, offset: int) -> Steps[Cut]:
        """Return the cut that belongs to a committed offset of an input topic of the task.

        Raises RetriableError while it may still arrive, RestoreError if it cannot anymore.
        """
        found = self._known(task_id, topic, offset)
        if found is not None:
            return found
        end = yield from self._read_to_end()
        found = self._known(task_id, topic, offset)
        if found is not None:
            return found
        self._check_read_to(end, f"the cut of task {task_id}")
        raise RestoreError(
            f"task {task_id}: the clocks that belong to the committed offset {offset} of"
            f" {topic}-{task_id.partition} are not in {self._partition.topic!r}, where they were"
            " written with it: that topic was truncated or recreated. Restore it from a backup."
            " Without a backup, start from scratch: `logstate reset` deletes the state of all"
            " stores"
        )

    def records(self) -> Steps[Mapping[bytes, bytes]]:
        """Return the last record of each task by its key.

        Raises RetriableError while an open transaction may hide a record.
        """
        end = yield from self._read_to_end()
        self._check_read_to(end, "the records of tasks")
        return self._last

    def close(self) -> Steps[None]:
        """Release the consumer."""
        if self._consumer is not None:
            yield Step("close_log_consumer", self._consumer.close)
            self._consumer = None
            self._is_assigned = False

    def _known(self, task_id: TaskId, topic: str, offset: int) -> Cut | None:
        value = self._last.get(cut_key(task_id))
        if value is None:
            return None
        return decode_cut_record(value, topic=topic, committed_offset=offset)

    def _read_to_end(self) -> Steps[int]:
        """Read the available records; return the end offset of the topic."""
        ends = yield Step("end_offsets", self._admin.end_offsets, ([self._partition],))
        end: int = ends[self._partition]
        yield from self._read_on(end)
        return end

    def _check_read_to(self, end: int, what: str) -> None:
        if self._position < end:
            raise RetriableError(
                f"{what} may be after offset {self._position} of {self._partition}, where"
                " a transaction is open"
            )

    def _read_on(self, end: int) -> Steps[None]:
        """Read the available records up to ``end``, for a short time at most."""
        if self._position >= end:
            return
        if self._consumer is None:
            self._consumer = yield Step("new_log_consumer", self._cluster.log_consumer)
        consumer = self._consumer
        if not self._is_assigned:
            starts = yield Step("start_offsets", self._admin.start_offsets, ([self._partition],))
            self._position = starts[self._partition]
            yield Step("restore_assign", consumer.assign, ({self._partition: self._position},))
            self._is_assigned = True
        for _ in range(_POLLS_MAX):
            if self._position >= end:
                return
            polled = yield Step("restore_poll", consumer.poll, (_BATCH, _POLL_S))
            for record in polled.records.get(self._partition, ()):
                self._last[record.key()] = record.value()
            reached = yield Step("restore_position", consumer.position, (self._partition,))
            before, self._position = self._position, max(self._position, reached or 0)
            if polled.out_of_range:  # truncated or recreated meanwhile: start over
                yield from self.close()
                self._position = 0
                return
            if before == self._position and polled.ends:
                return  # all committed records were read
