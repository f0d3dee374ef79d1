"""ProcessorContext: what processors and transformers may ask of their task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, overload

from logstate.contracts.processing import Cancellable, ProcessorMetrics
from logstate.contracts.records import Record, RecordMetadata, TaskId
from logstate.contracts.typed_stores import StoreDeclaration

S = TypeVar("S")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")

PunctuationKind = Literal["stream_time", "wall_clock"]


class ProcessorContext(Protocol[KOut, VOut]):
    """The interface of a processor to its task; passed to ``Processor.init``.

    ``KOut`` and ``VOut`` are the types of the records that it forwards.

    >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
    >>> class Where(Processor):
    ...     def process(self, record):
    ...         print(self.context.task_id, self.context.record_metadata())
    >>> builder = StreamsBuilder()
    >>> _ = builder.stream("in", value=str).process(Where)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe("in", "ada", "x")
    0_0 RecordMetadata(topic='in', partition=0, offset=0)

    It belongs to one task, and it and its stores may be used only by the thread that runs the task,
    inside ``process`` and scheduled callbacks. A call from another thread raises
    :class:`logstate.WrongThreadError` and does nothing. If the call would have changed something
    (``forward``, ``schedule``, ``commit``, a write to a store), the application also stops with a
    ``ProcessingError`` before its next commit, because that change would be missing from it. Every
    thread may ask for ids, settings, ``state_dir``, ``metrics`` and the wall clock.

    Source: Kafka Streams' ``ProcessorContext`` (KIP-478).
    """

    @property
    def application_id(self) -> str:
        """The application's id.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
        >>> class Name(Processor):
        ...     def init(self, context):
        ...         print(context.application_id, context.task_id, context.partition)
        >>> builder = StreamsBuilder()
        >>> _ = builder.stream("in", value=str).process(Name)
        >>> TopologyTestDriver(builder.build(), application_id="shop").close()
        shop 0_0 0

        Returns:
            What ``Application`` was given.

        Source: Kafka Streams' ``ProcessorContext.applicationId``.
        """

    @property
    def task_id(self) -> TaskId:
        """The task: number of the sub-topology and partition; see :attr:`application_id` for an
        example.

        >>> from logstate.contracts.records import TaskId
        >>> str(TaskId(0, 3))
        '0_3'

        Returns:
            The task's id.

        Source: Kafka Streams' ``ProcessorContext.taskId``.
        """

    @property
    def partition(self) -> int:
        """The task's partition; see :attr:`application_id` for an example.

        >>> from logstate.contracts.records import TaskId
        >>> TaskId.parse("0_3").partition
        3

        Returns:
            The partition's number.

        Source: Kafka Streams' ``TaskId.partition``.
        """

    @property
    def application_config(self) -> Mapping[str, Any]:
        """The settings of the application, read-only.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
        >>> class Show(Processor):
        ...     def init(self, context):
        ...         print(context.application_config["application_id"])
        >>> builder = StreamsBuilder()
        >>> _ = builder.stream("in", value=str).process(Show)
        >>> TopologyTestDriver(builder.build(), application_id="shop").close()
        shop

        Semantics: by the names of ``Application``'s parameters, without those of the clients, which
        may be secrets. In the test driver only ``application_id`` and ``state_dir``. Values of
        your own need no settings: give them to the processor's constructor.

        Returns:
            Names and values.

        Source: Kafka Streams' ``ProcessorContext.appConfigs``.
        """

    @property
    def state_dir(self) -> Path:
        """A directory for files of your own, one per task.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
        >>> class Index(Processor):
        ...     def process(self, record):
        ...         (self.context.state_dir / "seen.txt").write_text(record.value)
        ...         print([path.name for path in self.context.state_dir.iterdir()])
        >>> builder = StreamsBuilder()
        >>> _ = builder.stream("in", value=str).process(Index)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("in", "ada", "x")
        ['seen.txt']

        Semantics: a cache next to the task's rows: not logged, not committed, not moved to another
        instance, and deleted with the rows. Processors of one task share it. It may contain files
        of an earlier time, when the task was here before.

        Returns:
            The directory, which exists.

        Raises:
            StoreAccessError: the task has none: that of a global store, or one that is replayed.

        Source: Kafka Streams' ``ProcessorContext.stateDir``.
        """

    @property
    def metrics(self) -> ProcessorMetrics:
        """Your own metrics, which are exported with the library's.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
        >>> class Watch(Processor):
        ...     def init(self, context):
        ...         self.cents = context.metrics.counter("paid_cents_total", "Paid so far.")
        ...     def process(self, record):
        ...         self.cents.add(record.value)
        >>> builder = StreamsBuilder()
        >>> _ = builder.stream("in", value=int).process(Watch, name="watch")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("in", [("ada", 3, 0), ("bob", 4, 1)])
        ...     driver.metrics()["paid_cents_total"]["series"]
        [{'labels': {'task': '0_0', 'node': 'watch'}, 'value': 7}]

        Semantics: ``counter(name, meaning)``, ``gauge`` and ``histogram``, with labels of your own
        as keyword arguments; make them in ``init`` and keep them. Counters end in ``_total``. They
        are in ``app.metrics()``, for Prometheus as ``logstate_<name>`` and for OpenTelemetry.
        Metrics are not state: records processed again after a crash or an abort count again.
        Labels should take few values, never those of keys.

        Returns:
            What makes them.

        Raises:
            ValueError: a name or label that cannot be, or a name that means something else already.

        Source: Kafka Streams' ``ProcessorContext.metrics`` and ``StreamsMetrics.addSensor``.
        """

    def forward(self, record: Record[KOut, VOut], child: str | None = None) -> None:
        """Send a record to all operators below, or to the one named ``child``.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
        >>> class Route(Processor):
        ...     def process(self, record):
        ...         self.context.forward(record, "large" if record.value > 99 else "small")
        >>> builder = StreamsBuilder()
        >>> routed = builder.stream("orders", value=int).process(Route, key=str, value=int)
        >>> routed.to("large-orders", name="large")
        >>> routed.to("small-orders", name="small")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("orders", "ada", 250)
        ...     driver.read("large-orders", value=int), driver.read("small-orders", value=int)
        ([('ada', 250)], [])

        Semantics: depth first: when it returns, everything below has happened. Key, value,
        timestamp and headers are those of the record given; make another one with
        ``record._replace(...)``.

        Args:
            record: what to send.
            child: the name of an operator right below; all of them if not given.

        Raises:
            ValueError: a negative timestamp; in ``process_values``, another key.
            KeyError: the child does not exist.

        Source: Kafka Streams' ``ProcessorContext.forward``; timestamps: KIP-251.
        """

    @overload
    def store(self, name: StoreDeclaration[S]) -> S: ...
    @overload
    def store(self, name: str) -> Any: ...
    def store(self, name: str | StoreDeclaration[Any]) -> Any:
        """A store that the processor is connected to, or any global store.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
        >>> class City(Processor):
        ...     def process(self, record):
        ...         row = self.context.store("cities").get(record.value)
        ...         self.context.forward(record._replace(value=row.value))
        >>> builder = StreamsBuilder()
        >>> _ = builder.global_table("cities", value=str, store="cities")
        >>> builder.stream("in", value=str).process(City, key=str, value=str).to("out")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("cities", "0150", "Oslo")
        ...     driver.pipe("in", "ada", "0150")
        ...     driver.read("out", value=str)
        [('ada', 'Oslo')]

        Semantics: ask once, in ``init``, and keep it: it stays the same object. It holds the rows
        of this task's partition. Global stores are read-only here and need no connecting. What
        stores can do is in :mod:`logstate.contracts.stores`.

        Args:
            name: the store's name, or what its declaration returned, which has its types.

        Returns:
            The store.

        Raises:
            StoreAccessError: the processor is not connected to it; or a global store is written to.

        Source: Kafka Streams' ``ProcessorContext.getStateStore``.
        """

    def schedule(
        self,
        interval: timedelta,
        kind: PunctuationKind,
        callback: Callable[[int], None],
        *,
        start: int | None = None,
    ) -> Cancellable:
        """Call ``callback(timestamp)`` again and again, by event time or by the wall clock.

        >>> from datetime import timedelta
        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
        >>> class Tick(Processor):
        ...     def init(self, context):
        ...         context.schedule(timedelta(seconds=1), "wall_clock", print)
        ...     def process(self, record): ...
        >>> builder = StreamsBuilder()
        >>> _ = builder.stream("in", value=str).process(Tick)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.advance_wall_clock(timedelta(milliseconds=1_500))
        ...     driver.advance_wall_clock(timedelta(milliseconds=5_000))
        1500
        6500

        Semantics: "stream_time" is due with the first record, then whenever the task's stream time
        reaches the next point of the grid: an idle topic triggers nothing. "wall_clock" is first
        due one interval from now. With ``start`` either is first due there, or at the next point of
        that grid if it is over; by stream time that is decided when the schedule is made, so that
        one which is made before the first record, and is over then, is due with it. Intervals that
        were missed are one call, with the time it is made at, and the grid does not shift. Per
        task, not per key. Due times survive a crash and a move (Kafka Streams starts its schedules
        again, so after frequent rebalances one may never be called). The callback runs without a
        current record; stores log with the callback's timestamp.

        Args:
            interval: at least 1 ms.
            kind: "stream_time" or "wall_clock".
            callback: takes the time in ms.
            start: a time in ms on the grid (KIP-1146); the first record's or now if not
                given.

        Returns:
            A handle whose ``cancel()`` ends it, also from inside the callback.

        Raises:
            TopologyError: another kind; an interval that is not a timedelta of whole milliseconds,
                or below 1 ms; a callback that cannot be called with a time.
            ValueError: a negative ``start``.
            TypeError: a ``start`` that is not an int.

        Source: Kafka Streams' ``ProcessorContext.schedule`` (KIP-138, KIP-1146).
        """

    def current_stream_time_ms(self) -> int:
        """The largest timestamp that the task has seen, in ms; -1 before the first record.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
        >>> class Lateness(Processor):
        ...     def process(self, record):
        ...         print(self.context.current_stream_time_ms() - record.timestamp)
        >>> builder = StreamsBuilder()
        >>> _ = builder.stream("in", value=str).process(Lateness)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("in", [("ada", "x", 100), ("ada", "y", 70)])
        0
        30

        Semantics: the task's, over all its partitions, the current record included; not that of the
        records which reach this processor. It never goes back, and survives a crash.

        Returns:
            Event time in ms.

        Source: Kafka Streams' ``ProcessorContext.currentStreamTimeMs`` (KIP-622).
        """

    def current_system_time_ms(self) -> int:
        """The wall clock in ms: that of the test driver in tests.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
        >>> class Clock(Processor):
        ...     def process(self, record):
        ...         print(self.context.current_system_time_ms())
        >>> builder = StreamsBuilder()
        >>> _ = builder.stream("in", value=str).process(Clock)
        >>> with TopologyTestDriver(builder.build(), wall_clock_start_ms=5_000) as driver:
        ...     driver.pipe("in", "ada", "x")
        5000

        Semantics: results that depend on it differ when input is processed again.

        Returns:
            Milliseconds since the epoch.

        Source: Kafka Streams' ``ProcessorContext.currentSystemTimeMs`` (KIP-622).
        """

    def record_metadata(self) -> RecordMetadata | None:
        """Where the current record came from; None inside scheduled callbacks.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
        >>> class Offset(Processor):
        ...     def process(self, record):
        ...         print(self.context.record_metadata().offset)
        >>> builder = StreamsBuilder()
        >>> _ = builder.stream("in", value=str).process(Offset)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("in", [("ada", "x", 0), ("ada", "y", 1)])
        0
        1

        Semantics: the topic is that of the sub-topology's source: behind a repartition it is the
        internal topic. For a result that was buffered (suppress, ``emit="commit"``, grace) it is
        that of the record which caused it.

        Returns:
            Topic, partition and offset.

        Source: Kafka Streams' ``ProcessorContext.recordMetadata`` (KIP-478).
        """

    def commit(self) -> None:
        """Ask for a commit soon.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
        >>> class Important(Processor):
        ...     def process(self, record):
        ...         self.context.commit()
        >>> builder = StreamsBuilder()
        >>> _ = builder.stream("in", value=str).process(Important)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("in", "ada", "x")

        Semantics: a hint: nothing has been committed when it returns. A commit covers all tasks of
        the worker.

        Source: Kafka Streams' ``ProcessorContext.commit``.
        """
