"""Operators of a stream that forward some of its records, or all in another order, unchanged.

They are methods of ``KStream``, and return a stream of the same type.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Self, Unpack, overload

from logstate.topology.declaring import callbacks
from logstate.topology.declaring.windows import TumblingWindows
from logstate.topology.dsl.deduplication import (
    IdOptions,
    KeyOptions,
    deduplicated,
    distinct,
    throttled,
)
from logstate.topology.dsl.flow import K, V
from logstate.topology.dsl.sampling import SampledBy, sampled
from logstate.topology.dsl.sorting import SortOptions, sorted_by_time
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.operators.streams.pass_through import PeekNode


class RecordSelection(StreamFlow[K, V]):
    """The operators of this module."""

    @overload
    def filter(self, predicate: Callable[[V], object], *, name: str | None = None) -> Self: ...
    @overload
    def filter(self, predicate: Callable[[K, V], object], *, name: str | None = None) -> Self: ...
    def filter(self, predicate: Callable[..., object], *, name: str | None = None) -> Self:
        """Keep the records that the predicate accepts.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("orders", value=int).filter(lambda cents: cents >= 100).to("large")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 50, 0), ("bob", 250, 1)])
        ...     driver.read("large", value=int)
        [('bob', 250)]

        Semantics: as every operator, but
            Late records: records that are filtered out do not advance the clocks of windows,
                suppress and joins below: each has its own stream time, that of its input.

        Args:
            predicate: ``predicate(value)`` or ``predicate(key, value)``; any truth value.

        Source: Kafka Streams' ``KStream.filter``.
        """
        return self._filtered(predicate, name, keeps=True)

    @overload
    def filter_not(self, predicate: Callable[[V], object], *, name: str | None = None) -> Self: ...
    @overload
    def filter_not(
        self, predicate: Callable[[K, V], object], *, name: str | None = None
    ) -> Self: ...
    def filter_not(self, predicate: Callable[..., object], *, name: str | None = None) -> Self:
        """Drop the records that the predicate accepts.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("clicks", value=str).filter_not(lambda page: page == "ping").to("pages")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "home", 0), ("bob", "ping", 1)])
        ...     driver.read("pages", value=str)
        [('ada', 'home')]

        Semantics: as :meth:`filter`.

        Args:
            predicate: as for :meth:`filter`.

        Source: Kafka Streams' ``KStream.filterNot``.
        """
        return self._filtered(predicate, name, keeps=False)

    @overload
    def peek(self, action: Callable[[V], object], *, name: str | None = None) -> Self: ...
    @overload
    def peek(self, action: Callable[[K, V], object], *, name: str | None = None) -> Self: ...
    def peek(self, action: Callable[..., object], *, name: str | None = None) -> Self:
        """Call the action for every record, then pass the record on.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> seen = []
        >>> builder.stream("clicks", value=str).peek(seen.append).to("same")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("clicks", "ada", "home")
        ...     seen, driver.read("same", value=str)
        (['home'], [('ada', 'home')])

        Semantics: as every operator, but
            Order: kept; the action is called before the record is forwarded.
            Quirk: the action happens at least once, under exactly-once too: a record that is
                processed again after a crash has its side effect again, because nothing can take
                one back.

        Args:
            action: ``action(value)`` or ``action(key, value)``; its result is not used. Do not
                change the value in place: sibling operators see the same object.

        Source: Kafka Streams' ``KStream.peek``.
        """
        node = self._node(PeekNode, name, "KSTREAM-PEEK-", action=callbacks.action(action))
        return self._below(node, keeps_value=True)

    def deduplicate_by_key(self, interval: timedelta, **options: Unpack[KeyOptions]) -> Self:
        """Forward the first of the records of a key within the interval, and drop the others.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> alarms = builder.stream("alarms", value=str)
        >>> alarms.deduplicate_by_key(timedelta(milliseconds=10), store="first").to("first")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("alarms", [("hall", "a", 20), ("hall", "b", 30), ("hall", "c", 31)])
        ...     driver.pipe("alarms", "attic", "d", timestamp=25)
        ...     driver.read("first", value=str), driver.dropped_total
        ([('hall', 'a'), ('hall', 'c'), ('attic', 'd')], 1)

        A duplicate is a record for which one with the same key was forwarded before, at most the
        interval earlier or later by event time: an out-of-order record is treated like any other.
        The interval begins at forwarded records, not at duplicates, so a key with continuous
        records is forwarded about once per interval. Forwarded records of a key are always more
        than the interval apart.

        Semantics: as every operator, but
            Null key: forwarded, in every case.
            Late records: dropped and counted, if they are older than stream time by more than the
                interval, because records forwarded near them may have expired. A longer
                ``retention`` of the store accepts later ones: by as much as it is longer than three
                intervals. Stream
                time is that of the records with a key.
            Repartition: only if an operator above may have changed keys; through ``<application
                id>-<name>-repartition``, named after the store if ``name`` is not given. Null keys
                go through it, too.
            Store: the one named ``store``, else ``name``: a row, with the time, for each forwarded
                record, kept for three intervals. Another interval needs another store.
            Quirk: duplicates are counted (``dropped_records_total``, reason ``duplicate``), like
                all that is dropped.

        Args:
            interval: how far apart records of a key have to be to go on both; more than 0.
            options: ``store``, a name or :class:`Materialized` of the operator's store; ``key`` and
                ``value``, the serdes of the stream if they are not known, of which ``value`` is
                needed for a repartition topic only; ``name``; ``late``, the name of
                the stream of late records (``StreamsBuilder.late``), which are not dropped then.

        Raises:
            TopologyError: the interval is not positive; neither a store nor a name is given; a
                serde is missing; a retention is shorter than three intervals.

        Source: ``KStream.deduplicateByKey`` of KIP-655, which Kafka Streams has not released. There
        a late record passes if nothing like it is found.
        """
        return deduplicated(self, interval, None, {**options})

    def deduplicate_by_key_value(
        self,
        id_selector: Callable[[V], object] | Callable[[K, V], object],
        interval: timedelta,
        **options: Unpack[IdOptions],
    ) -> Self:
        """Forward the first of the records of a key and an id within the interval; drop others.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> paid = builder.stream("payments", value=dict)
        >>> hour = timedelta(hours=1)
        >>> once = paid.deduplicate_by_key_value(lambda p: p["id"], hour, id=str, store="paid")
        >>> once.map_values(lambda p: p["cents"], value=int).to("once")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("payments", "ada", {"id": "p-1", "cents": 250})
        ...     driver.pipe("payments", "ada", {"id": "p-2", "cents": 250})
        ...     driver.pipe("payments", "ada", {"id": "p-1", "cents": 250})  # sent once more
        ...     driver.read("once", value=int)
        [('ada', 250), ('ada', 250)]

        Semantics: as :meth:`deduplicate_by_key`, but
            Null key: forwarded, without a call of the selector. So is a record whose id is None.
            Null value: given to the selector as None.
            Late records: as there; stream time is that of the records with a key and an id.
            Store: as there, and its keys are pairs of key and id.

        Args:
            id_selector: ``id_selector(value)`` or ``id_selector(key, value)``; returns the id. Two
                ids are the same exactly when their bytes are. It is unique for a key at most:
                records of other keys may have it.
            interval: as for :meth:`deduplicate_by_key`.
            options: as there, and ``id`` (required), the serde of the ids.

        Raises:
            TopologyError: as there; the selector has another shape.

        Source: ``KStream.deduplicateByKeyValue`` of KIP-655.
        """
        return deduplicated(self, interval, callbacks.mapper(id_selector, "id selector"), options)

    def distinct(
        self,
        by: Callable[[V], object] | Callable[[K, V], object] | None = None,
        *,
        windows: TumblingWindows | None = None,
        **options: Unpack[IdOptions],
    ) -> Self:
        """Forward the first record of each key, or of each key and id, and drop the others.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows
        >>> builder = StreamsBuilder()
        >>> visits = builder.stream("visits", value=str)
        >>> visits.distinct(store="visitors").to("visitors")
        >>> ten = TumblingWindows(size=timedelta(milliseconds=10))
        >>> visits.distinct(lambda page: page, id=str, windows=ten, store="pages").to("pages")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("visits", [("ada", "tea", 1), ("ada", "tea", 2), ("ada", "rum", 3)])
        ...     driver.pipe("visits", "ada", "tea", timestamp=14)
        ...     driver.read("visitors", value=str), driver.read("pages", value=str)
        ([('ada', 'tea')], [('ada', 'tea'), ('ada', 'rum'), ('ada', 'tea')])

        Semantics: as every operator, but
            Null key: forwarded, without a call of ``by``. So is a record whose id is None.
            Null value: given to ``by`` as None; without it a record like any other.
            Late records: without windows none. With windows those of closed windows are dropped and
                counted, or emitted with ``late``.
            Out-of-order records: the first to arrive is forwarded.
            Repartition: only if an operator above may have changed keys; through ``<application
                id>-<name>-repartition``, named after the store if ``name`` is not given.
            Store: the one named ``store``, else ``name``: a row for each forwarded record, for ever
                without windows, which suits a bounded number of keys and ids. With windows they
                expire with the window. :meth:`deduplicate_by_key` forgets by time since the last
                forwarded record.
            Quirk: duplicates are counted (``dropped_records_total``, reason ``duplicate``).

        Args:
            by: ``by(value)`` or ``by(key, value)``; returns the id. Two ids are the same exactly
                when their bytes are.
            windows: forward the first record of each window; None: the first of all.
            options: ``store``, a name or :class:`Materialized` of the operator's store; ``id``, the
                serde of the ids, required with ``by``; ``key`` and ``value``, the serdes of the
                stream if they are not known; ``name``; ``late``, the name of the stream of late
                records (``StreamsBuilder.late``).

        Raises:
            TopologyError: neither a store nor a name is given; a serde is missing; windows that are
                not tumbling; a store with a history or a capacity; ``late`` without windows.

        Source: SQL's ``SELECT DISTINCT ON``; Flink's deduplication, which keeps the first row.
        """
        selector = None if by is None else callbacks.mapper(by, "by")
        return distinct(self, selector, windows, {**options})

    def throttle(self, n: int, windows: TumblingWindows, **options: Unpack[KeyOptions]) -> Self:
        """Forward the first ``n`` records of each key in each window, and drop the others.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows
        >>> builder = StreamsBuilder()
        >>> alarms = builder.stream("alarms", value=str)
        >>> minute = TumblingWindows(size=timedelta(minutes=1))
        >>> alarms.throttle(2, minute, store="sent").to("messages")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("alarms", [("hall", text, time) for time, text in enumerate("abc")])
        ...     driver.pipe("alarms", "hall", "d", timestamp=60_000)
        ...     driver.read("messages", value=str), driver.dropped_total
        ([('hall', 'a'), ('hall', 'b'), ('hall', 'd')], 1)

        Windows are those of event time, so the result does not depend on how fast records are
        processed. In any time as long as a window at most ``2 * n`` records of a key go on: the
        last ones of a window and the first ones of the next.

        Semantics: as every operator, but
            Null key: forwarded, in every case.
            Null value: a record like any other.
            Late records: those of closed windows are dropped and counted, or emitted with ``late``.
            Out-of-order records: the first to arrive are forwarded.
            Repartition: only if an operator above may have changed keys; through ``<application
                id>-<name>-repartition``, named after the store if ``name`` is not given.
            Store: the one named ``store``, else ``name``: a row with a number for each key and
                window, which expires with the window.
            Quirk: what is over the limit is counted (``dropped_records_total``, reason
                ``throttled``).

        Args:
            n: records of a key that each window forwards, at least 1.
            windows: their size is the time, their grace how much out of order records may be.
            options: ``store``, a name or :class:`Materialized` of the operator's store; ``key`` and
                ``value``, the serdes of the stream if they are not known; ``name``; ``late``, the
                name of the stream of late records (``StreamsBuilder.late``).

        Raises:
            TopologyError: ``n`` is below 1; windows that are not tumbling; neither a store nor a
                name is given; a serde is missing.

        Source: Akka Streams' ``throttle(elements, per)``, with event time.
        """
        return throttled(self, n, windows, options)

    @overload
    def sample(
        self,
        fraction: float,
        *,
        by: SampledBy = "key",
        seed: int = 0,
        key: Any = None,
        name: str | None = None,
    ) -> Self: ...
    @overload
    def sample(self, *, every: int, name: str | None = None) -> Self: ...
    def sample(
        self,
        fraction: float | None = None,
        *,
        every: int | None = None,
        by: SampledBy | None = None,
        seed: int | None = None,
        key: Any = None,
        name: str | None = None,
    ) -> Self:
        """Forward all records of a part of the keys, a part of all records, or every n-th record.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> visits = builder.stream("visits", value=str)
        >>> visits.sample(0.5, seed=2).to("of-some-users")
        >>> visits.sample(0.5, by="record").to("some")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     for user in ("ada", "bob", "eve", "bob"):
        ...         driver.pipe("visits", user, "home")
        ...     driver.read("of-some-users", value=str), len(driver.read("some", value=str))
        ([('ada', 'home'), ('eve', 'home')], 3)

        A hash decides, so the sample is the same after a crash, in another run, and, by key, in
        another application.

        ``every=n`` counts the records of each partition instead and forwards the ones with the
        numbers n, 2n and so on:

        >>> builder = StreamsBuilder()
        >>> builder.stream("visits", value=str).sample(every=2, name="half").to("half")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     for user in ("ada", "bob", "eve", "bob"):
        ...         driver.pipe("visits", user, "home")
        ...     driver.read("half", value=str)
        [('bob', 'home'), ('bob', 'home')]

        Semantics: as every operator, but
            Null key: the record's topic, partition and offset decide, also with ``by="key"``. With
                ``every`` it is counted and forwarded as all others.
            Order: with ``every`` that in which a task reads its partition of each input topic; a
                merged stream has one count. The count is part of each commit: a crash, a move and a
                restore continue it. An error handler that skips a record takes it out of the count.
            Quirk: records that are left out are not counted as dropped. With ``by="record"``
                records that an operator above has made of one record are all in the sample or none
                of them; behind a repartition topic the offsets are those of that topic, which
                another run may write in another order. With ``every`` another number of partitions,
                and another name of the operator, begin a new count: give ``name``, so that an
                operator that is added above does not change it.

        Args:
            fraction: from 0 to 1: the expected part of the keys or records.
            every: of how many records one is forwarded, at least 1.
            by: "key", the default, or "record".
            seed: another one has another, independent sample; 0 if not given.
            key: serde of the keys if it is not known, with ``by="key"``.
            name: the operator's name; generated if not given.

        Raises:
            TopologyError: ``fraction``, ``every``, ``by`` or ``seed`` is none of these; ``every``
                with one of the others; the serde of the keys is missing.

        Source: SQL's ``TABLESAMPLE BERNOULLI (percent) REPEATABLE (seed)``; in Kafka Streams and
        Flink a ``filter`` by the hash of the key. ``every``: Polars' ``gather_every``, from the
        n-th row on.
        """
        return sampled(self, fraction, every, by, seed, key, name)

    def sort_by_time(self, grace: timedelta, **options: Unpack[SortOptions]) -> Self:
        """Forward records in the order of their timestamps, each once its grace has passed.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> readings = builder.stream("readings", value=str)
        >>> readings.sort_by_time(timedelta(milliseconds=5), store="waiting").to("sorted")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("readings", [("a", "x", 13), ("b", "y", 11), ("a", "z", 17)])
        ...     driver.pipe("readings", "a", "w", timestamp=22)
        ...     driver.read("sorted", value=str)
        [('b', 'y'), ('a', 'x'), ('a', 'z')]

        A record waits until stream time, that of the records of this operator, has passed its
        timestamp by ``grace``. The order is that of each partition; behind ``repartition()`` it is
        that of all records of a key.

        Semantics: as every operator, but
            Null key: waits like all others.
            Null value: waits like all others.
            Late records: a record that is older than one that was forwarded before is dropped and
                counted, or emitted with ``late``.
            Order: by timestamp, and for one timestamp that of arrival.
            Store: the one named ``store``, else ``name``: a row for each record that waits. A
                crash, a move and a restore change nothing.
            Timestamp: the record's, and its headers and record metadata.

        Args:
            grace: how much out of order records may be, at least 0 ms. Results come later by as
                much.
            options: ``store``, a name or :class:`Materialized` of the operator's store; ``key`` and
                ``value``, the serdes of the stream if they are not known; ``close_on_idle``,
                forward waiting records without a later one once the inputs of the task have been
                idle for this long, at least 1 ms; ``name``; ``late``, the name of the stream of
                late records (``StreamsBuilder.late``), which are not dropped then.

        Raises:
            TopologyError: neither a store nor a name is given; a serde is missing; a negative
                grace; a store with a history, a capacity, a TTL or indexes.

        Source: Flink SQL's ``ORDER BY`` a time attribute, which drops a record whose timestamp is
        that of the last one, too.
        """
        return sorted_by_time(self, grace, {**options})
