"""Replay changelogs into stores while other tasks run.

One assign-only consumer per worker serves all restoring stores. It belongs to no group, so a
rebalance cannot disturb it and a restore cannot stop other work. See
:mod:`logstate.restore.restore_plan` for targets and for when local rows are discarded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from logstate.changelog.rows.writes import LoggedFields, LoggedWrite
from logstate.contracts.clients import Admin, Cluster, LogConsumer, Step, Steps
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ConfigError, RegistryError
from logstate.contracts.record_parts import timestamp_of
from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.contracts.serde import record_decoders
from logstate.contracts.stores import StoreSpec
from logstate.contracts.worker_config import WorkerConfig
from logstate.restore.rate_limiter import RestorePace
from logstate.restore.restore_plan import within
from logstate.restore.truncated_logs import TruncatedLogs
from logstate.task.owned_task import OwnedTask, Stage, StoreTarget
from logstate.topology.declaring.declaration_site import function_site
from logstate.topology.processor.timestamp_extractors import wall_clock_time

_LOGGER = logging.getLogger(__name__)

#: Records per poll. With 2,000: 0.45 us of the worker's time per record, 0.66 us of all threads'
#: time. With 10,000, which do not fit into the CPU caches: 0.80 and 1.09 us.
_BATCH = 2_000
#: Rows that may be buffered in memory while tasks run. The tasks are blocked while the rows are
#: written, because RocksDB calls hold the GIL. Measured: 5,000 rows take 4 to 8 ms, a file of
#: 83,000 rows takes 100 to 230 ms.
_ROWS_MAX_WITH_TASKS = 5_000


@dataclass(frozen=True)
class RestoreProgress:
    """Progress of one store's restore, passed to a restore listener after each replayed batch."""

    task: str
    store: str
    topic: str
    position: int
    target: int
    #: records so far; fewer than offsets if markers and compaction left holes
    restored_records: int = 0
    #: mean rate since this restore began; None while it is too early to estimate
    offsets_per_s: float | None = None
    #: estimated time left at this rate
    remaining_s: float | None = None

    @property
    def is_done(self) -> bool:
        """True if the store has reached its target."""
        return self.position >= self.target


RestoreListener = Callable[[RestoreProgress], None]


def notify(listener: RestoreListener, progress: RestoreProgress) -> None:
    """Call a listener and log what it raises: an observer must not end the restore."""
    try:
        listener(progress)
    except Exception:
        _LOGGER.exception(
            "the restore listener %s failed; the restore continues. It received %s",
            function_site(listener),
            progress,
        )


class Restorer:
    """The restore consumer of a worker and the stores that it restores."""

    def __init__(
        self,
        config: WorkerConfig,
        cluster: Cluster,
        listener: RestoreListener | None = None,
        monotonic_ms: Callable[[], float] = lambda: 0.0,
        *,
        steps: str = "restore",
        keeps_place: bool = False,
    ) -> None:
        """``keeps_place``: a log read to its end is read further soon, and stays assigned."""
        #: names of the steps
        self._steps = {name: f"{steps}_{name}" for name in ("assign", "poll", "position", "rest")}
        self._rows_max = config.restore_rows_max
        self._bytes_max = config.restore_bytes
        self._cluster = cluster
        self._listener = listener
        self._consumer: LogConsumer | None = None
        self._active: dict[TopicPartition, tuple[OwnedTask, StoreTarget]] = {}
        self._monotonic_ms = monotonic_ms
        self._paces: dict[TopicPartition, RestorePace] = {}
        self._shortened = TruncatedLogs(monotonic_ms)
        self._keeps_place = keeps_place
        self._is_assigned = True
        #: the consumer has assigned logs, which its client prefetches even without polls
        self._has_logs = False
        #: size of keys and values of the records taken so far
        self.taken_bytes = 0

    @property
    def is_idle(self) -> bool:
        """True if no store is being restored."""
        return not self._active

    @property
    def must_wait(self) -> bool:
        """True if no store is being restored and the consumer still has assigned logs."""
        return self._has_logs and not self._active

    def add(self, owned: OwnedTask) -> None:
        """Start restoring a task whose ``targets`` are set; reached targets are done at once.

        May be called again after targets were raised: reads in progress continue.
        """
        for target in owned.targets:
            target.is_done = self._position(owned, target) >= target.target
            if not target.is_done and target.changelog not in self._active:
                self._active[target.changelog] = (owned, target)
                first = self._position(owned, target)
                self._paces[target.changelog] = RestorePace(self._monotonic_ms(), first)
                self._is_assigned = False

    def remove(self, owned: OwnedTask) -> None:
        """Stop restoring a task; rows restored so far are kept."""
        for changelog in [c for c, (o, _) in self._active.items() if o is owned]:
            del self._active[changelog]
            self._is_assigned = False

    def poll(
        self, timeout_s: float, admin: Admin | None = None, *, busy: bool = False
    ) -> Steps[None]:
        """Poll once and store the records; ``busy``: other tasks run at the same time.

        ``admin`` is used to detect truncated logs, unless the caller does so itself.
        """
        if not self._active:
            if not self._keeps_place:
                yield from self.rest()
            return
        if self._consumer is None:
            self._consumer = yield Step("new_log_consumer", self._cluster.log_consumer)
        consumer = self._consumer
        if not self._is_assigned:
            positions = {tp: self._position(o, t) for tp, (o, t) in self._active.items()}
            yield Step(self._steps["assign"], consumer.assign, (positions,))
            self._is_assigned = self._has_logs = True
        polled = yield Step(self._steps["poll"], consumer.poll, (_BATCH, timeout_s))
        for changelog in polled.out_of_range:
            self.start_over(changelog, "was cut off below its restore")
        for changelog, records in polled.records.items():
            if changelog in self._active:
                self._apply_records(changelog, records)
        self._write_some(min(self._rows_max, _ROWS_MAX_WITH_TASKS) if busy else self._rows_max)
        positions = yield Step(self._steps["position"], _positions, (consumer, tuple(self._active)))
        for changelog, position in positions.items():
            owned, target = self._active[changelog]
            self._advance(owned, target, position)
            if target.is_done:
                del self._active[changelog]
                self._is_assigned = False
        if admin is not None and not polled.records:
            yield from self._look_at_ends(admin)
        if not self._keeps_place:
            yield from self.rest()

    def rest(self) -> Steps[None]:
        """Unassign the logs if none is being read.

        Otherwise the client would prefetch and buffer what tasks write to them now, and a log whose
        position has meanwhile fallen out of range would not be assigned again for the next read.
        """
        if self._consumer is not None and self.must_wait:
            yield Step(self._steps["rest"], self._consumer.assign, ({},))
            self._has_logs = False

    def close(self) -> Steps[None]:
        """Release the consumer."""
        if self._consumer is not None:
            yield Step("close_log_consumer", self._consumer.close)
            self._consumer = None
            self._is_assigned = self._has_logs = False

    def start_over(self, changelog: TopicPartition, what_happened: str) -> None:
        """Move the task of a log that is being read back to ASSIGNED, because the log has changed.

        The task then determines the start and the target of its replay again.
        """
        if changelog in self._active:
            owned, _ = self._active[changelog]
            _LOGGER.warning("task %s: %s %s", owned.task_id, changelog, what_happened)
            self.remove(owned)
            owned.move_to(Stage.ASSIGNED)

    def _look_at_ends(self, admin: Admin) -> Steps[None]:
        """Check after an empty poll whether a log was truncated below its target."""
        reading = {tp: (self._position(o, t), t.target) for tp, (o, t) in self._active.items()}
        for changelog, end in (yield from self._shortened.found(admin, reading)).items():
            position, target = reading[changelog]
            self.start_over(
                changelog,
                f"was truncated: it ends at {end}, but its restore, at offset {position}, has the"
                f" target {target}",
            )

    def _apply_records(self, changelog: TopicPartition, records: Sequence[FetchedRecord]) -> None:
        owned, target = self._active[changelog]
        state = owned.task.state
        records = within(records, self._position(owned, target), target.target)
        if not records:
            return
        last = records[-1].offset()
        assert last is not None
        before = state.unapplied_bytes
        if not state.load(target.store, records, last + 1):
            state.restore(target.store, logged_fields(state.specs[target.store], records), last + 1)
        self.taken_bytes += state.unapplied_bytes - before
        owned.restored_records += len(records)
        target.restored_records += len(records)

    def _write_some(self, rows_max: int) -> None:
        """Keep buffered rows within their limits; apply the tasks with the most bytes first."""
        states = {id(owned): owned.task.state for owned, _ in self._active.values()}.values()
        while states and (
            sum(state.unapplied_rows() for state in states) >= rows_max
            or sum(state.unapplied_bytes for state in states) >= self._bytes_max
        ):
            max(states, key=lambda state: state.unapplied_bytes).apply()

    def _advance(self, owned: OwnedTask, target: StoreTarget, position: int | None) -> None:
        state = owned.task.state
        # Markers and holes are progress without records. The consumer may be beyond the target.
        reached, known = min(position or 0, target.target), self._position(owned, target)
        if reached > known:
            state.restore(target.store, (), reached)
        if max(reached, known) >= target.target:
            target.is_done = True
        if self._listener is not None:
            notify(self._listener, self._progress(owned, target))

    def _progress(self, owned: OwnedTask, target: StoreTarget) -> RestoreProgress:
        position, now = self._position(owned, target), self._monotonic_ms()
        pace = self._paces[target.changelog]
        return RestoreProgress(
            str(owned.task_id),
            target.store,
            target.changelog.topic,
            position,
            target.target,
            target.restored_records,
            pace.offsets_per_s(now, position),
            pace.remaining_s(now, position, target.target),
        )

    @staticmethod
    def _position(owned: OwnedTask, target: StoreTarget) -> int:
        return owned.task.state.positions.get(target.store, 0)


def _positions(
    consumer: LogConsumer, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int | None]:
    """Return all positions in one step; it makes no request and nothing changes in between."""
    return {partition: consumer.position(partition) for partition in partitions}


def logged_fields(spec: StoreSpec, records: Sequence[FetchedRecord]) -> Sequence[LoggedFields]:
    """Return the fields of records for a store that processes each record."""
    # On internal topics event time 0 is stored as -1, "no timestamp". Elsewhere -1 means no
    # timestamp.
    earliest = 0 if spec.source_topic is None else -1
    fields: Sequence[LoggedFields] = [
        (r.key(), r.value(), max(r.timestamp()[1], earliest), r.headers()) for r in records
    ]
    return fields if spec.source_topic is None else readable(spec, fields)


def readable(spec: StoreSpec, writes: Iterable[LoggedFields]) -> list[LoggedWrite]:
    """Return the writes that processing made for records of a source topic used as changelog.

    See KAFKA-8037. Each record takes the same path as in processing: decoded by the source's serdes
    and encoded by the store's serdes. So a value that decodes to None (JSON's ``null``) deletes its
    row, a key that was written in another form (``{"b":1, "a":2}``) finds its row, and records that
    processing skipped are skipped again: those without a key, those that do not decode or encode,
    and those without a timestamp.

    The timestamp extractor is called again, so rows get the timestamps that processing gave them.
    The partition time of that moment is not known anymore, so the extractor receives -1. If it
    returns that, it is called again with the record's own timestamp, because the row would be lost
    otherwise. With the wall-clock extractor, rows get the record's own timestamp. Processing
    skipped records for which the extractor raises or returns no timestamp.

    Rows of tables have no headers, even if the records had headers.

    Raises RegistryError if a schema is not available, since the record is not at fault.
    """
    topic = spec.source_topic
    assert topic is not None, spec.name
    key_serde, value_serde = spec.source_serdes or (spec.key, spec.value)
    decode_key, decode_value = record_decoders(key_serde, value_serde, topic)
    encode_key, encode_value = spec.key.serializer(topic, True), spec.value.serializer(topic, False)
    time_of = _extracted_time(spec)

    def read(write: LoggedFields) -> LoggedWrite | None:
        raw_key: bytes | None = write[0]  # a source topic may have records without a key
        _, raw_value, record_ms, headers = write
        try:
            header_list = list(headers or ())
            key = None if raw_key is None else decode_key(raw_key, header_list)
            if key is None:
                return None
            value = None if raw_value is None else decode_value(raw_value, header_list)
            row_key, row = encode_key(key), None if value is None else encode_value(value)
        except (RegistryError, ConfigError):
            raise
        except Exception:  # noqa: BLE001  serdes raise anything
            return None
        timestamp = time_of(key, value, record_ms or 0)
        kept = headers if spec.keeps_source_headers else None
        return LoggedWrite(row_key, row, timestamp, kept) if timestamp >= 0 else None

    return [kept for kept in map(read, writes) if kept is not None]


def _extracted_time(spec: StoreSpec) -> Callable[[object, object, int], int]:
    """Return a function for the event time of a processed record; negative if it was skipped."""
    extractor, is_logged = spec.source_extractor, False
    if extractor is None:
        return lambda _key, _value, record_ms: record_ms
    if extractor is wall_clock_time:
        return lambda _key, _value, record_ms: max(record_ms, 0)
    given_by = "the timestamp extractor returned"

    def time_of(key: object, value: object, record_ms: int) -> int:
        failure: Exception | None = None
        for partition_ms in (-1, record_ms):
            try:
                timestamp = timestamp_of(extractor(key, value, record_ms, partition_ms), given_by)
            except Exception as exc:  # noqa: BLE001  users' functions raise anything
                failure = exc
            else:
                if timestamp >= 0:
                    return timestamp
        if failure is not None:
            warn_of(failure)
        return -1

    def warn_of(failure: Exception) -> None:
        nonlocal is_logged
        if not is_logged:
            is_logged = True
            _LOGGER.warning(
                "store %r, which is restored from topic %r: skipping records for which the"
                " timestamp extractor %s returns no timestamp, as during processing. If it"
                " returned a timestamp during processing, rows are missing now: the extractor"
                " must depend on nothing but the record. Error for the first record: %s: %s",
                spec.name,
                spec.source_topic,
                function_site(extractor),
                type(failure).__name__,
                text_of(failure),
            )

    return time_of
