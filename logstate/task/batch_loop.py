"""The hot loop: records of one partition, decoded and pushed through the compiled operators.

Everything constant during the run is looked up once. Per record there are only the calls of the
client's accessors, the decoders and the operator chain, and one `try` covers the run. The stage
that the loop had reached shows what failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from logstate.contracts.drops import DropReason
from logstate.contracts.errors import ConfigError, RecordError
from logstate.contracts.processing import StreamProcess
from logstate.contracts.record_parts import TIMESTAMP_MAX, timestamp_of
from logstate.contracts.records import FetchedRecord, Headers, TopicPartition
from logstate.contracts.serde import Deserializer, HeaderList
from logstate.task.expired_rows import LOOK_BY_WALL_CLOCK, GuardCallback
from logstate.task.queues import PartitionQueue
from logstate.task.record_errors import failed, is_not_of_record, undecodable, without_timestamp
from logstate.task.task_progress import RetryLater, TaskProgress
from logstate.topology.graph.origin import blame_for
from logstate.topology.plan.compilation import CompiledSource

_KEY: Final = "key"
_HEADERS: Final = "headers"
_VALUE: Final = "value"
_TIME: Final = "time"
_USER: Final = "user"
_NEVER: Final = float("inf")


def run_queue(  # noqa: C901  one loop, kept in one piece for its speed
    task: TaskProgress, queue: PartitionQueue, source: CompiledSource, before: float, limit: int
) -> int:
    """Process up to ``limit`` records of a queue that are older than ``before``.

    A head that is decoded already is processed in any case: the caller chose it. The first record
    that is not older becomes the head. Returns the number of processed records.

    Raises DeserializationError or ProcessingError; the records before the failed one are consumed.
    """
    partition, records = queue.partition, queue.records
    take, decode_key, decode_value = _next_and_decoders(source, records.popleft)
    has_extractor, process = source.timestamp_extractor is not None, source.process
    punctuations, has_timers = task.punctuations, task.punctuations.are_before_records
    partition_time, stream_time = task.partition_times.get(partition, -1), task.stream_time
    head, queue.head = queue.head, None
    is_bounded = before != _NEVER  # comparing an integer with infinity is slow
    count, last, stage = 0, -1, _USER
    record: FetchedRecord | None = None
    task.topic, task.partition = partition
    try:
        while count < limit:
            if head is not None:
                timestamp, key, value, record = head
                head = None
            else:
                if not records:
                    break
                record = take()
                stage = _KEY
                raw = record.key()
                key = None if raw is None else decode_key(raw)
                stage = _VALUE
                raw = record.value()
                value = None if raw is None else decode_value(raw)
                stage = _USER
                timestamp = record.timestamp()[1]
                if has_extractor or timestamp < 0:
                    stage = _TIME
                    timestamp = event_time(task, source, record, key, value, partition_time)
                    stage = _USER
                    if timestamp < 0:
                        last, limit = _drop_untimed(task, source, record, limit)
                        continue
                if is_bounded and timestamp >= before:
                    queue.make_head(timestamp, key, value, record)
                    break
            if timestamp > stream_time:
                if has_timers and punctuations.next_timers <= timestamp:
                    _run_timers(task, partition, timestamp)
                stream_time = task.stream_time = timestamp
            headers = task.headers = record.headers()
            offset = task.offset = record.offset()  # type: ignore[assignment]  # it has one
            task.timestamp = timestamp
            task.fetched = record
            process(key, value, timestamp, headers)
            due = punctuations.next_stream_time
            if due is not None and due <= stream_time:
                limit = _run_schedules(task, partition, limit)
            last = offset  # type: ignore[assignment]
            # With the offset: a head that is decoded again must get the same time.
            if timestamp > partition_time:  # noqa: PLR1730  max() costs three times as much
                partition_time = timestamp
            count += 1
    except RetryLater as later:
        assert record is not None
        records.appendleft(record)  # decoded again: the function may have changed the value
        task.blocked_until_ms = later.at_ms
    except Exception as exc:  # decoders and user functions raise anything
        if _is_final(exc, stage):
            raise
        assert record is not None
        if stage is _USER and task.fetched is not record:
            stage = _HEADERS  # nothing else can fail between decoding a record and processing it
        if _is_passed_over(task, queue, source, stage, record, exc):
            last = record.offset() or 0
            stage = _USER
            count += 1
    finally:
        if stage is not _USER:
            records.appendleft(record)  # type: ignore[arg-type]  # taken, and not skipped
        if last >= 0:
            task.consumed[partition] = last + 1
            task.has_uncommitted_input = True
        if partition_time >= 0:
            task.partition_times[partition] = partition_time
    return count


def _next_and_decoders(
    source: CompiledSource, take: Callable[[], FetchedRecord]
) -> tuple[Callable[[], FetchedRecord], Deserializer[Any], Deserializer[Any]]:
    """Return how to take the next record, and the decoders of its key and value."""
    if source.header_decoders is None:
        return take, source.deserialize_key, source.deserialize_value
    read_key, read_value = source.header_decoders
    headers: HeaderList = []  # a copy of the headers of the last record

    def take_and_remember() -> FetchedRecord:
        nonlocal headers
        record = take()
        try:
            headers = list(record.headers() or ())
        except Exception:  # noqa: BLE001  the loop reads them again and reports the record
            headers = []
        return record

    return (
        take_and_remember,
        lambda data: read_key(data, headers),
        lambda data: read_value(data, headers),
    )


def _run_timers(task: TaskProgress, partition: TopicPartition, timestamp: int) -> None:
    """Run the timers that a record is about to make due, before it is processed.

    Raises RetryLater if one must be retried: the record follows it, and time waits for both.
    """
    before = task.stream_time
    task.stream_time = timestamp
    task.punctuate("timers")
    task.topic, task.partition = partition
    if task.blocked_until_ms > 0:
        task.stream_time = before
        raise RetryLater(task.blocked_until_ms)
    task.punctuations.expect_record()


def after_looks(
    task: TaskProgress, guarded: GuardCallback, sources: Mapping[str, CompiledSource]
) -> dict[str, CompiledSource]:
    """Return sources that look for rows that have expired by the wall clock before each record."""
    task.look_by_wall_clock.guard(guarded)
    return {t: replace(s, process=_after_look(task, s.process)) for t, s in sources.items()}


def _after_look(task: TaskProgress, process: StreamProcess) -> StreamProcess:
    """Return a process that looks first.

    Raises RetryLater if the look must be retried: the record follows it.
    """
    is_due = task.look_by_wall_clock.is_due

    def look_and_process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if is_due(task.wall_clock_ms()):
            topic, partition, offset = task.topic, task.partition, task.offset
            task.punctuate("wall_clock", only=LOOK_BY_WALL_CLOCK)
            if task.blocked_until_ms > 0:
                raise RetryLater(task.blocked_until_ms)
            task.topic, task.partition, task.offset = topic, partition, offset
            task.timestamp, task.headers = timestamp, headers
        process(key, value, timestamp, headers)

    return look_and_process


def _run_schedules(task: TaskProgress, partition: TopicPartition, limit: int) -> int:
    """Run due schedules; return how many records may follow.

    None may follow before a schedule that must be retried, or after an interruption.
    """
    task.punctuate("stream_time")
    task.topic, task.partition = partition
    if task.blocked_until_ms > 0 or task.punctuations.is_interrupted:
        return 0
    task.punctuations.follows_timers = False
    task.punctuations.refresh()  # maybe nothing was due, after an interruption that came late
    return limit


def _drop_untimed(
    task: TaskProgress, source: CompiledSource, record: FetchedRecord, limit: int
) -> tuple[int, int]:
    """Drop a record without a time; return its offset and how many may follow."""
    task.offset, task.timestamp = record.offset() or 0, record.timestamp()[1]
    task.dropper(source.name, DropReason.NEGATIVE_TIMESTAMP)()
    return task.offset, 0 if task.punctuations.is_interrupted else limit


def _is_final(error: Exception, stage: str) -> bool:
    """Return True if the error is raised unchanged: no record caused it, or it names its record."""
    if isinstance(error, ConfigError) or is_not_of_record(error):
        return True
    return stage is _USER and isinstance(error, RecordError)


def _is_passed_over(
    task: TaskProgress,
    queue: PartitionQueue,
    source: CompiledSource,
    stage: str,
    record: FetchedRecord,
    cause: Exception,
) -> bool:
    """Return True if the handler skips a record that does not decode or has no time.

    Returns False if it must be retried later; raises the record's error otherwise.
    """
    if stage in (_USER, _TIME):
        error = cause
        if not isinstance(error, RecordError):
            found = blame_for(cause, task.sub_topologies, node=source.name)
            offset = record.offset() or 0
            error = failed(queue.partition, offset, task.task_id, found, cause)
            error.__cause__ = cause
        if stage is _TIME:
            return task.skips_untimed(record, error)
        raise error from cause
    error = undecodable(record, stage, source.name, task.task_id, cause)
    error.__cause__ = cause  # a dead letter contains the cause, and nothing was raised yet
    if not task.skips(record, error, source.name):
        raise error from cause
    return True


def decode_head(task: TaskProgress, queue: PartitionQueue, source: CompiledSource) -> bool:
    """Decode the next record of a queue without processing it; return False if there is none."""
    while queue.head is None and queue.records and task.blocked_until_ms == 0:
        run_queue(task, queue, source, float("-inf"), 1)
    return queue.head is not None


def event_time(
    task: TaskProgress,
    source: CompiledSource,
    record: FetchedRecord,
    key: object,
    value: object,
    partition_time: int,
) -> int:
    """Return a record's event time if it is not simply the record's timestamp."""
    timestamp = record.timestamp()[1]
    if source.timestamp_extractor is not None:
        given = source.timestamp_extractor(key, value, timestamp, partition_time)
        if type(given) is int and given <= TIMESTAMP_MAX:
            return given
        return timestamp_of(given, "the timestamp extractor returned")
    if source.is_internal:
        return 0  # on internal topics event time 0 is stored as "no timestamp"
    raise without_timestamp(record, task.task_id)
