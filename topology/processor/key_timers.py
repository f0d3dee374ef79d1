"""Timers per key that survive crashes and moves: an addition to Kafka Streams.

A schedule (``context.schedule``) belongs to a task, not to a key. Timers are rows of an ordinary
store, ``8 bytes time | key``, so they are logged, restored, rolled back and moved with the state
they belong to. A schedule looks at regular intervals for the rows that are due.

Invariants: there is at most one timer per key and time; a timer is deleted before its callback
runs, so that both are committed together or not at all.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import timedelta
from itertools import takewhile
from typing import Any, Generic, NamedTuple, TypeVar

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
        return {"format": "timer", "schema": None, "inner": self.inner.describe()}


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
    time of the task (an idle topic triggers nothing), or the wall clock. Due timers run by their
    times, then by the keys' bytes; one that is set for a time that has passed runs at the next
    look. A timer runs once: its deletion is committed with what the callback does.

    Args:
        context: the processor's.
        store: name of the :func:`timer_store`, to which the processor is connected.
        callback: ``callback(key, at_ms)``; it runs without a current record.
        kind: "stream_time" or "wall_clock".
        every: how often due timers are looked for, which is how late one may be. A look costs about
            as much as a read of a store.

    Source: of this library; as Flink's timers of keyed state.
    """

    def __init__(
        self,
        context: ProcessorContext,
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
        context.schedule(every, kind, self._run_due)

    def set(self, key: K, at_ms: int) -> None:
        """Call back for a key at a time; another timer of the key stays. Twice is once.

        Raises ValueError for a time that is negative, TypeError for one that is not an int.
        """
        self._store.put((_time(at_ms), key), b"")

    def cancel(self, key: K, at_ms: int) -> bool:
        """Take a timer back; returns whether there was one."""
        return self._store.delete((_time(at_ms), key)) is not None

    def _run_due(self, now_ms: int) -> None:
        # Taken before the first is deleted: a scan that rows are deleted from has to read on.
        due = list(takewhile(lambda row: row[0][0] <= now_ms, self._store.range()))
        for timer, _ in due:
            at_ms, key = timer
            if self._store.get(timer) is not None:  # unless a callback before took it back
                self._store.put(timer, None)
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
