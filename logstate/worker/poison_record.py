"""Search for the poison record: the record whose results a broker refuses.

A transaction contains the results of many records, and the broker only reports that something in it
is permanently refused. So the transaction is aborted and its records are processed again in parts,
each in a separate transaction: half of them, then half of that half if it is refused too, until a
single record is left. The production handler of its task decides: the next replay skips the record,
or the application stops with an error that names the record and the producer of the result. A
thousand records take some ten aborts; records after the refused transaction are not delayed.

If no record is found, a scheduled callback was the cause: due wall-clock callbacks are called one
by one, each in a separate transaction, and the handler decides about the call.

Invariant: the transaction of a part contains nothing of other records or tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from logstate.contracts.errors import RefusedError
from logstate.contracts.records import ProducedFields, RecordMetadata, TaskId, TopicPartition
from logstate.task.owned_task import OwnedTask


@dataclass
class _BisectedRecords:
    """Records of one task that include the refused one."""

    until: dict[TopicPartition, int]
    #: records per part; None: half of the remaining records
    limit: int | None = None
    #: no record was the cause; these wall-clock schedules were called, each separately
    called: set[str] = field(default_factory=set)


@dataclass
class _TransactionPart:
    """The contents of the open transaction."""

    owned: OwnedTask
    records: int
    #: the last record of each partition whose position has changed
    last: list[RecordMetadata] = field(default_factory=list)
    #: the schedule that was called instead of processing records
    schedule: str | None = None
    #: topics that a single record wrote to, with the bytes of keys and values
    sent: dict[str, int] = field(default_factory=dict)


class PoisonRecordSearch:
    """The searches of one worker."""

    def __init__(self) -> None:
        self._searches: dict[TaskId, _BisectedRecords] = {}
        self._part: _TransactionPart | None = None
        #: the last refusal had no record, and nothing was found
        self._is_fruitless = False

    def is_searching(self, owned: OwnedTask) -> bool:
        """Return True if the records of a task must be processed in parts."""
        return owned.task_id in self._searches

    def process_part(self, owned: OwnedTask) -> bool:
        """Process the next part; return True if it must be committed separately."""
        task, search = owned.task, self._searches[owned.task_id]
        before = dict(task.consumed)
        left = sum(max(0, until - before.get(tp, 0)) for tp, until in search.until.items())
        if left == 0:
            return self._call_next(owned, search)
        count = task.process(search.limit or max(1, left // 2))
        if count == 0:
            return False  # not fetched yet
        self._part = _TransactionPart(
            owned,
            count,
            [
                RecordMetadata(tp.topic, tp.partition, offset - 1)
                for tp, offset in task.consumed.items()
                if before.get(tp) != offset
            ],
            sent=_largest_by_topic(task.outputs) if count == 1 else {},
        )
        return True

    def part_committed(self) -> None:
        """Record that the part was committed."""
        self._part = None

    def transaction_failed(self, cause: Exception, running: Iterable[OwnedTask]) -> None:
        """Handle an aborted transaction. Returns if a replay will help, raises otherwise.

        A part that was not refused is processed again: another record is refused then.
        """
        part, self._part = self._part, None
        if not isinstance(cause, RefusedError):
            if part is not None and part.schedule is not None:
                self._searches[part.owned.task_id].called.discard(part.schedule)
            return
        if part is not None:
            self._refused_part(part, cause)
            return
        tasks = list(running)
        suspects = [owned for owned in tasks if owned.task.has_moved]
        if not suspects:  # no record, so a wall-clock schedule
            if self._is_fruitless:
                raise cause
            suspects = tasks
        self._is_fruitless = not any(owned.task.has_moved for owned in tasks)
        for owned in suspects:
            self._searches[owned.task_id] = _BisectedRecords(dict(owned.task.consumed))

    def _refused_part(self, part: _TransactionPart, cause: RefusedError) -> None:
        task, search = part.owned.task, self._searches[part.owned.task_id]
        if part.schedule is not None:
            self._is_fruitless = False
            search.called.discard(part.schedule)
            task.guard.refusals.of_schedule(part.schedule, cause)
        elif part.records == 1:
            search.limit = None
            task.guard.refusals.of_record(_culprit(part), cause, part.sent)
        else:
            search.limit = part.records // 2

    def _call_next(self, owned: OwnedTask, search: _BisectedRecords) -> bool:
        """Call the next wall-clock schedule, after all records."""
        task = owned.task
        due = task.due_by_wall_clock()
        name = next((name for name in due if name not in search.called), None)
        if name is None:
            del self._searches[owned.task_id]
            return False
        if task.punctuate("wall_clock", only=name) == 0:
            return False  # retried later
        search.called.add(name)
        self._part = _TransactionPart(owned, 0, schedule=name)
        return True


def _culprit(part: _TransactionPart) -> RecordMetadata:
    """Return the record of a part; a partition may also have moved past dropped records."""
    fetched = part.owned.task.fetched
    for source in part.last:
        if fetched is not None and source == (
            fetched.topic(),
            fetched.partition(),
            fetched.offset(),
        ):
            return source
    return part.last[0]


def _largest_by_topic(outputs: Iterable[ProducedFields]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for topic, _, key, value, _, _ in outputs:
        sizes[topic] = max(sizes.get(topic, 0), len(key or b"") + len(value or b""))
    return sizes
