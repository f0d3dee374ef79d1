"""Timers per key that survive crashes and moves: an addition to Kafka Streams.

A schedule (``context.schedule``) belongs to a task, not to a key. Timers are rows of an ordinary
store, ``8 bytes time | key``, so they are logged, restored, rolled back and moved with the state
they belong to. A schedule looks at regular intervals for the rows that are due: by stream time
before the record that advances it, and again after the record if that set a timer that is due.

Invariants: there is at most one timer per key and time; a timer is deleted before its callback
runs, so that both are committed together or not at all. One look calls timers in ascending order of
time and key, so it ends, whatever timers the callbacks set.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import islice, takewhile
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from logstate.contracts.formats import TIMER
from logstate.contracts.record_parts import event_time_of
from logstate.contracts.serde import Deserializer, Serde, Serializer
from logstate.contracts.stores import StoreSpec
from logstate.serdes.built_in import serde_of
from logstate.topology.declaring.callbacks import signature_problems
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.plain_functions import refuse_unfinished
from logstate.topology.processor.processor_context import ProcessorContext, PunctuationKind
from logstate.topology.processor.processor_stores import key_value_store

K = TypeVar("K")

_TIME = struct.Struct(">q")
#: how many due timers are read ahead
_READ_AHEAD = 100


class Timer(NamedTuple, Generic[K]):
    """A row of a timer store."""

    at_ms: int
    key: K


class TimerSerde(Serde[Timer[K]]):
    """``8 bytes time | key``: the order of the bytes is the order in which timers are due."""

    def __init__(self, inner: Serde[K]) -> None:
        self.inner = inner
        self.immutable = inner.immutable

    def serializer(self, topic: str, is_key: bool) -> Serializer[Timer[K]]:
        inner = self.inner.serializer(topic, is_key)
        return lambda timer: _TIME.pack(timer[0]) + inner(timer[1])

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[Timer[K]]:
        inner = self.inner.deserializer(topic, is_key)
        return lambda data: Timer(_TIME.unpack_from(data)[0], inner(data[8:]))

    def describe(self) -> dict[str, Any]:
        return {"format": TIMER, "schema": None, "inner": self.inner.describe()}


class TimerLook:
    """What :class:`KeyTimers` schedules. By stream time, tasks call it before the record."""

    __slots__ = ("_run_due", "call", "last_due", "times")

    def __init__(
        self,
        run_due: Callable[[int], None],
        last_due: Callable[[int], int | None],
        times: Callable[[], Iterator[int]],
        call: Callable[[Any, int], None],
    ) -> None:
        self._run_due = run_due
        #: calls back for a key and a time; a task replaces it to skip a timer that fails
        self.call = call
        #: the time of the last timer up to a limit; None: there is none
        self.last_due = last_due
        #: the times of all timers, in order
        self.times = times

    def __call__(self, now_ms: int) -> None:
        self._run_due(now_ms)


@runtime_checkable
class Repeatable(Protocol):
    """The schedule of a look that can be repeated after the current record."""

    def repeat(self) -> None: ...


def timer_store(name: str, key: Any, *, in_memory: bool = False) -> StoreSpec:
    """A store of timers per key, for :class:`KeyTimers`.

    >>> from logstate import timer_store
    >>> timer_store("reminders", str).name
    'reminders'

    Semantics: a key-value store with a changelog; see :class:`KeyTimers`.

    Args:
        name: the store's name.
        key: type or serde of the keys.
        in_memory: keep rows in memory instead of RocksDB.

    Returns:
        The declaration, for ``add_store`` or ``stores=``.

    Raises:
        TopologyError: the name cannot be part of a topic's name, or ``key`` is not a serde.

    Source: of this library; Kafka Streams has no timers per key.
    """
    serde = TimerSerde(serde_of(key, what=f"the keys of timer store {name!r}"))
    return key_value_store(name, serde, bytes, in_memory=in_memory)


class KeyTimers(Generic[K]):
    """Timers per key of a processor, which survive crashes and moves.

    >>> from datetime import timedelta
    >>> from logstate import KeyTimers, Processor, Record, StreamsBuilder
    >>> from logstate import TopologyTestDriver, timer_store
    >>> class Remind(Processor):
    ...     def init(self, context):
    ...         self.context = context
    ...         self.timers = KeyTimers(context, "reminders", self.remind)
    ...     def process(self, record):
    ...         self.timers.set(record.key, record.timestamp + 1_000)
    ...     def remind(self, key, at_ms):
    ...         self.context.forward(Record(key, "still there?", at_ms))
    >>> builder = StreamsBuilder()
    >>> carts = builder.stream("carts", value=str)
    >>> reminders = timer_store("reminders", str)
    >>> carts.process(Remind, stores=reminders, key=str, value=str, name="remind").to("out")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("carts", [("ada", "tea", 0), ("bob", "rum", 500)])
    ...     driver.crash()
    ...     driver.pipe("carts", "cleo", "tea", timestamp=1_200)
    ...     driver.read_with_timestamps("out", value=str)
    [('ada', 'still there?', 1000)]

    Semantics: made in ``Processor.init``. A timer is due when the clock has reached its time: event
    time of the task, or the wall clock. Due timers run by their
    times, then by the keys' bytes, those of all keys. By stream time they run BEFORE the record
    that makes them due, as in Flink: ``process`` never sees state that a due timer would have
    removed. In the callback stream time is that of the record. On an idle topic no timer is due,
    except with ``process(..., close_on_idle=...)``. A schedule (``context.schedule``)
    still runs after the record, as in Kafka Streams.

    A callback may set and cancel timers. By stream time, one that is due and later than the
    callback's own, by time and then key, runs in the same look, before the record. One that
    ``process`` sets for a time that its record has reached runs right after the record. All others
    that are set for a time that has been reached, such as those of a late record, which does not
    advance stream time, run at the next look. A timer runs once: its deletion is committed with
    what the callback does, and with the record that made it due.

    Args:
        context: the processor's.
        store: name of the :func:`timer_store`, to which the processor is connected.
        callback: ``callback(key, at_ms)``; it runs without a current record.
        kind: "stream_time" or "wall_clock".
        every: how often due timers are looked for, which is how late one may be. A look costs about
            as much as a read of a store. By stream time a look happens before the first record at
            or after each multiple of it.

    Source: of this library; as Flink's timers of keyed state.
    """

    def __init__(
        self,
        context: ProcessorContext[Any, Any],
        store: str,
        callback: Callable[[K, int], None],
        *,
        kind: PunctuationKind = "stream_time",
        every: timedelta = timedelta(milliseconds=1),
    ) -> None:
        for problem in signature_problems(callback, "the timer callback", "(key, at_ms)", 2):
            raise declaration_error(problem)
        self._store = context.store(store)
        self._callback: Callable[[K, int], object] = callback
        self._is_by_stream_time = kind == "stream_time"
        #: the time of the last look
        self._looked_at = -1
        self._is_looking = False
        #: a callback has set a timer that is due, which is not in what was read ahead
        self._must_read_again = False
        self._look = TimerLook(self._run_due, self._last_due, self._times, self._call)
        self._check = context.schedule(every, kind, self._look)

    def set(self, key: K, at_ms: int) -> None:
        """Call back for a key at a time; another timer of the key stays. Twice is once.

        Raises ValueError for a time that is negative, TypeError for one that is not an int.
        """
        at_ms = _time(at_ms)
        self._store.put((at_ms, key), b"")
        if at_ms <= self._looked_at and self._is_by_stream_time:
            if self._is_looking:
                self._must_read_again = True
            elif isinstance(self._check, Repeatable):
                self._check.repeat()

    def cancel(self, key: K, at_ms: int) -> bool:
        """Take a timer back; returns whether there was one."""
        return self._store.delete((_time(at_ms), key)) is not None

    def _last_due(self, limit_ms: int) -> int | None:
        return max(takewhile(lambda at_ms: at_ms <= limit_ms, self._times()), default=None)

    def _times(self) -> Iterator[int]:
        return (timer[0] for timer, _ in self._store.range())

    def _run_due(self, now_ms: int) -> None:
        self._looked_at = now_ms
        self._is_looking = True
        try:
            self._run_until(now_ms)
        finally:
            self._is_looking = False

    def _run_until(self, now_ms: int) -> None:
        ahead = _READ_AHEAD if self._is_by_stream_time else None
        last: Timer[K] | None = None
        is_done = False
        while not is_done:
            due = self._read_due(now_ms, last, ahead)
            self._must_read_again, is_done = False, len(due) != ahead
            for timer in due:
                if timer == last:
                    continue  # it was set again while it ran, and waits
                last = timer
                self._run(timer)
                if self._must_read_again:
                    is_done = False
                    break

    def _read_due(self, now_ms: int, start: Timer[K] | None, most: int | None) -> list[Timer[K]]:
        # The scan ends before the first is deleted: one that rows are deleted from has to read on.
        rows = takewhile(lambda row: row[0][0] <= now_ms, self._store.range(start))
        return [timer for timer, _ in islice(rows, most)]

    def _run(self, timer: Timer[K]) -> None:
        if self._store.get(timer) is None:  # a callback before took it back
            return
        self._store.put(timer, None)
        self._look.call(timer.key, timer.at_ms)

    def _call(self, key: K, at_ms: int) -> None:
        result = self._callback(key, at_ms)
        if result is not None:
            refuse_unfinished(result, self._callback, "timer callback")


def _time(at_ms: object) -> int:
    """The time of a timer, checked; the store has 8 bytes for it."""
    if type(at_ms) is int and at_ms < 0:
        raise ValueError(
            f"a timer was set for {at_ms} ms: times are milliseconds since the epoch, not"
            " negative. Add the delay to a record's timestamp or to the current time."
        )
    return event_time_of(at_ms, "KeyTimers was given")
