"""What was committed for a task: when the group's offsets are asked for, and oversized cuts.

The coordinator does not tell offsets that an open transaction may change: the question waits on the
worker's own thread, and all its tasks with it. Where no task runs there is nothing better to do.
Where tasks run, the first question is short, each following one longer, because a slow broker must
be able to answer at all, and between two of them the tasks have nine times as long as the last
took.

A cut that is too long for the metadata of an offset lies in ``<application id>-cuts``, written in
the same transaction. Whoever starts a task with such a cut needs the record that matches its
committed offset. The topic is read forward as far as it can be read, once per turn and never again
from its start; the last record of each task is kept. A record that lies behind an open transaction
is read at a later turn.

Invariant: while tasks run, at most a tenth of the time goes into unanswered questions.
"""

from __future__ import annotations

from collections.abc import Mapping

from logstate.changelog.cut import Cut, cut_key, decode_cut_record
from logstate.contracts.clients import Admin, Cluster, LogConsumer, Step, Steps
from logstate.contracts.clock import Clock
from logstate.contracts.errors import RestoreError, RetriableError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.topic_names import cuts_topic

#: one question where nothing else runs, and the longest there is
LONGEST_S = 0.5
#: the first one where tasks run
_FIRST_S = 0.05
#: how long the tasks have, in times of what an unanswered question took
_REST = 9

_BATCH = 1_000
#: reads in one turn; records that are there come at once
_POLLS_MAX = 20
_POLL_S = 0.02


class RequestPace:
    """Times of the questions of one worker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timeout_s = _FIRST_S
        self._began_ms = 0.0
        self._next_ms = float("-inf")

    def timeout_s(self, *, blocks_tasks: bool) -> float | None:
        """How long a question may take now; None where it is not to be asked yet.

        ``blocks_tasks``: tasks run, which would have to wait for the answer.
        """
        self._began_ms = self._clock.monotonic_ms()
        if not blocks_tasks:
            return LONGEST_S
        return self._timeout_s if self._began_ms >= self._next_ms else None

    def answered(self) -> None:
        """The question was answered: the next one is the first of its kind."""
        self._timeout_s = _FIRST_S
        self._next_ms = float("-inf")

    def unanswered(self) -> None:
        """The question timed out."""
        now = self._clock.monotonic_ms()
        self._next_ms = now + _REST * (now - self._began_ms)
        self._timeout_s = min(LONGEST_S, 2 * self._timeout_s)


class CutsReader:
    """The cuts topic of one application, as one worker has read it so far."""

    def __init__(self, application_id: str, cluster: Cluster, admin: Admin) -> None:
        self._partition = TopicPartition(cuts_topic(application_id), 0)
        self._cluster = cluster
        self._admin = admin
        self._consumer: LogConsumer | None = None
        #: it reads; one that was made and never assigned would bring nothing, for ever
        self._is_assigned = False
        self._position = 0
        self._last: dict[bytes, bytes] = {}

    def cut_of(self, task_id: TaskId, topic: str, offset: int) -> Steps[Cut]:
        """The cut that belongs to a committed offset of an input topic of the task.

        Raises RetriableError while it may still come, RestoreError once it cannot.
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
            " written with it: that topic was truncated or recreated. Restore it. Without a"
            " backup `logstate reset` begins anew: it deletes the state of all stores"
        )

    def records(self) -> Steps[Mapping[bytes, bytes]]:
        """The last record of each task, by its key.

        Raises RetriableError while an open transaction may hide one.
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
        """Read what there is; returns where the topic ends."""
        ends = yield Step("end_offsets", self._admin.end_offsets, ([self._partition],))
        end: int = ends[self._partition]
        yield from self._read_on(end)
        return end

    def _check_read_to(self, end: int, what: str) -> None:
        if self._position < end:
            raise RetriableError(
                f"{what} may be behind offset {self._position} of {self._partition}, where"
                " somebody's transaction is open"
            )

    def _read_on(self, end: int) -> Steps[None]:
        """Read what there is up to ``end``; at most a moment."""
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
            if polled.out_of_range:  # deleted meanwhile, or created again: from the start
                yield from self.close()
                self._position = 0
                return
            if before == self._position and polled.ends:
                return  # all that is committed was read
