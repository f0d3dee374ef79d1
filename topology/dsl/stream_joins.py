"""The joins of a stream: with a stream inside a time window, with a table, with a global table.

=============  =======================  ====================================================
other side     who triggers results     what must be co-partitioned
=============  =======================  ====================================================
stream         both                     both streams; a changed key goes through a topic first
table          the stream               stream and table
global table   the stream               nothing: every instance has the whole table
=============  =======================  ====================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from logstate.contracts.errors import TopologyError
from logstate.topology.declaring.argument_checks import check_join_windows, check_options
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.windows import JoinWindows
from logstate.topology.dsl.flow import Flow, K, V
from logstate.topology.dsl.global_table import GlobalKTable
from logstate.topology.dsl.materialized import materialized
from logstate.topology.dsl.options import StreamJoinOptions, StreamTableJoinOptions
from logstate.topology.dsl.stream_table_join import join_global_table, join_table
from logstate.topology.dsl.table import KTable

if TYPE_CHECKING:
    from logstate.topology.dsl.stream import KStream

V2 = TypeVar("V2")
R = TypeVar("R")
Joiner = Callable[..., Any]


class JoinOperators(Flow[K, V]):
    """Mixed into :class:`logstate.topology.dsl.stream.KStream`."""

    @overload
    def join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V, V2], R],
        *,
        windows: JoinWindows,
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2], R],
        **options: Unpack[StreamTableJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[V, V2], R],
        *,
        key_mapper: Callable[..., Any],
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V, V2], R],
        *,
        windows: JoinWindows,
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[K, V, V2], R],
        **options: Unpack[StreamTableJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[K, V, V2], R],
        *,
        key_mapper: Callable[..., Any],
        name: str | None = None,
    ) -> KStream[K, R]: ...
    def join(self, other: Any, joiner: Joiner, **options: Any) -> KStream[K, Any]:
        """Inner join: a result for every match. What a match is depends on the other side.

        With a stream, records match that are near enough in time; both sides trigger:

        >>> from datetime import timedelta
        >>> from logstate import JoinWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", value=str)
        >>> paid = builder.stream("payments", value=str)
        >>> near = JoinWindows.symmetric(timedelta(milliseconds=5))
        >>> both = orders.join(paid, lambda o, p: f"{o}+{p}", windows=near, name="paid")
        >>> both.to("out", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("orders", "ada", "tea", timestamp=10)
        ...     driver.pipe("payments", "ada", "card", timestamp=15)
        ...     driver.pipe("payments", "ada", "cash", timestamp=16)
        ...     driver.read_with_timestamps("out", value=str)
        [('ada', 'tea+card', 15)]

        With a table, a record meets the row of its key; only the stream triggers. With a global
        table it meets the row under ``key_mapper(value)`` or ``key_mapper(key, value)``:

        >>> builder = StreamsBuilder()
        >>> users = builder.table("users", value=str, store="users")
        >>> cities = builder.global_table("cities", value=str, store="cities")
        >>> clicks = builder.stream("clicks", value=str)
        >>> located = clicks.join(users, lambda page, zip_code: f"{zip_code}:{page}")
        >>> city = located.join(cities, lambda _, city: city, key_mapper=lambda hit: hit[:4])
        >>> city.to("out", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("cities", "0150", "Oslo")
        ...     driver.pipe("users", "ada", "0150")
        ...     driver.pipe_all("clicks", [("ada", "home", 1), ("bob", "home", 2)])
        ...     driver.read("out", value=str)
        [('ada', 'Oslo')]

        Semantics:
            Null key: dropped and counted; with a global table it is the mapped key that counts.
            Null value: dropped and counted.
            Late records: between streams there is no test: a record joins whatever the other side's
                store still shows. With a table a record meets the row of NOW, of a versioned table
                the row as of its own time; with ``grace`` (versioned tables only) it waits that
                long for late rows, and a record that is later still is joined at once.
            Order: a record's partners by their timestamps, then as they came; with ``grace``
                results leave by timestamp.
            Repartition: a stream whose keys may have changed goes through
                ``<name>-left-repartition`` and ``<name>-right-repartition`` (with a table
                ``<name>-repartition``). Both sides must be co-partitioned, but with a global table
                neither matters.
            Store: of two streams ``<store>-this-join-store`` and ``<store>-other-join-store`` with
                retention before + after + grace. With ``grace`` a buffer, ``<name>-Buffer``. The
                table must have a store.
            Timestamp: of two streams the larger one, with tables the stream record's. Headers are
                those of the record that triggered the result.
            Quirk: with before = after = grace = 0 nothing ever joins: the stores' retention is 0
                then, as in Kafka Streams. A stream joined with itself pairs each record with
                itself, too.

        Args:
            other: a KStream, KTable or GlobalKTable of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``.
            options: with a stream ``windows`` (required), ``name`` (required), ``store`` (base of
                the stores' names, the name if not given), ``key``, ``value`` and ``other_value``
                (serdes of both sides where they are not known); with a table ``grace``, ``key``,
                ``value``, ``name`` (required where there is a repartition or a grace); with a
                global table ``key_mapper`` (required), ``name``.

        Returns:
            The joined stream; its values have no serde until one is given.

        Raises:
            TopologyError: an option that this join does not have, or one that is missing; a table
                without a store; another builder; another shape of a callback.

        Source: Kafka Streams' ``KStream.join``; names: KIP-479; grace: KIP-923; versioned: KIP-914.
        """
        joined: KStream[K, Any] = self._join(other, joiner, "inner", options)
        return joined

    @overload
    def left_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V, V2 | None], R],
        *,
        windows: JoinWindows,
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2 | None], R],
        **options: Unpack[StreamTableJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[V, V2 | None], R],
        *,
        key_mapper: Callable[..., Any],
        name: str | None = None,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V, V2 | None], R],
        *,
        windows: JoinWindows,
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[K, V, V2 | None], R],
        **options: Unpack[StreamTableJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[K, V, V2 | None], R],
        *,
        key_mapper: Callable[..., Any],
        name: str | None = None,
    ) -> KStream[K, R]: ...
    def left_join(self, other: Any, joiner: Joiner, **options: Any) -> KStream[K, Any]:
        """Left join: every record of this stream has a result; without a match right is None.

        >>> from datetime import timedelta
        >>> from logstate import JoinWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", value=str)
        >>> paid = builder.stream("payments", value=str)
        >>> near = JoinWindows.symmetric(timedelta(milliseconds=5))
        >>> both = orders.left_join(paid, lambda o, p: f"{o}+{p}", windows=near, name="paid")
        >>> both.to("out", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", "tea", 10), ("bob", "rum", 13)])
        ...     driver.pipe("payments", "ada", "card", timestamp=12)
        ...     driver.advance_wall_clock(1_000)
        ...     driver.pipe("payments", "eve", "cash", timestamp=26)
        ...     driver.read_with_timestamps("out", value=str)
        [('ada', 'tea+card', 12), ('bob', 'rum+None', 13)]

        Semantics:
            Null key: has a result without a match, at once (KIP-962); on the right side dropped and
                counted. With a global table a mapped key of None has no match.
            Null value: dropped and counted.
            Late records: as with :meth:`join`. A record without a match that is older than its
                window allows has its result at once, although its grace is not over and a match may
                still come.
            Order: matches as with :meth:`join`; unmatched records by timestamp, then key.
            Repartition: as with :meth:`join`; null keys go through the topic here.
            Store: as with :meth:`join`, and ``<store>-left-shared-join-store`` for what waits
                unmatched.
            Timestamp: of an unmatched record its own; otherwise as with :meth:`join`.
            Quirk: between streams an unmatched record's result comes when stream time has PASSED
                its window and grace (KIP-633), and only when a record as new as stream time comes
                and the builder's ``outer_join_emit_interval`` has passed: an idle topic flushes
                nothing. Kafka Streams looks that rarely to save work.

        Args:
            other: a KStream, KTable or GlobalKTable of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``; right may be None.
            options: as for :meth:`join`.

        Returns:
            The joined stream; its values have no serde until one is given.

        Raises:
            TopologyError: as for :meth:`join`.

        Source: Kafka Streams' ``KStream.leftJoin``; no spurious results: KIP-633; null keys:
        KIP-962.
        """
        joined: KStream[K, Any] = self._join(other, joiner, "left", options)
        return joined

    @overload
    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V | None, V2 | None], R],
        *,
        windows: JoinWindows,
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V | None, V2 | None], R],
        *,
        windows: JoinWindows,
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    def outer_join(
        self,
        other: KStream[K, Any],
        joiner: Joiner,
        *,
        windows: JoinWindows,
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, Any]:
        """Outer join of two streams: every record of both sides has a result.

        >>> from datetime import timedelta
        >>> from logstate import JoinWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> asked = builder.stream("asked", value=str)
        >>> told = builder.stream("told", value=str)
        >>> near = JoinWindows(after=timedelta(milliseconds=5))
        >>> both = asked.outer_join(told, lambda a, t: f"{a}/{t}", windows=near, name="talk")
        >>> both.to("out", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("told", "ada", "yes", timestamp=9)
        ...     driver.pipe("asked", "ada", "tea?", timestamp=10)
        ...     driver.advance_wall_clock(1_000)
        ...     driver.pipe("told", "bob", "no", timestamp=30)
        ...     driver.read_with_timestamps("out", value=str)
        [('ada', 'None/yes', 9), ('ada', 'tea?/None', 10)]

        Semantics:
            Null key: has a result without a match, at once, on both sides (KIP-962).
            Null value: dropped and counted.
            Late records: as with :meth:`left_join`, on both sides.
            Order: as with :meth:`left_join`; of unmatched records with one timestamp the right
                side's first.
            Repartition: as with :meth:`left_join`.
            Store: ``<store>-outer-this-join-store``, ``<store>-outer-other-join-store``, and
                ``<store>-outer-shared-join-store`` for what waits unmatched.
            Timestamp: of an unmatched record its own; otherwise the larger one.
            Quirk: an idle topic flushes nothing, as with :meth:`left_join`.

        Args:
            other: a KStream of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``; either may be None, not
                both.
            windows: how far apart matches may be.
            options: ``name`` (required), ``store``, ``key``, ``value``, ``other_value``, as for
                :meth:`join`.

        Returns:
            The joined stream; its values have no serde until one is given.

        Raises:
            TopologyError: as for :meth:`join`.

        Source: Kafka Streams' ``KStream.outerJoin``; no spurious results: KIP-633; null keys:
        KIP-962.
        """
        joined: KStream[K, Any] = self._join(
            other, joiner, "outer", {"windows": windows, **options}
        )
        return joined

    def _join(self, other: Any, joiner: Joiner, kind: Any, options: dict[str, Any]) -> Any:
        options = {name: given for name, given in options.items() if given is not None}
        if isinstance(other, KTable):
            check_options(options, {"grace", "key", "value", "name"}, "a stream-table join")
            self._check_same_builder(other, "join")
            return join_table(self, other, joiner, is_left=kind == "left", **options)
        if isinstance(other, GlobalKTable):
            check_options(options, {"key_mapper", "name"}, "a stream-global-table join")
            return join_global_table(self, other, joiner, is_left=kind == "left", **options)
        if not isinstance(other, JoinOperators):
            raise TopologyError(
                f"A stream is joined with a KStream, KTable or GlobalKTable, found {other!r}. Read"
                " it from a topic first, or aggregate it.",
                declared_at=declaration_site(),
            )
        check_options(
            options,
            {"windows", "store", "key", "value", "other_value", "name"},
            "a stream-stream join",
        )
        if "windows" not in options:
            raise TopologyError(
                "A stream-stream join needs windows=: without a time span every record of one side"
                " would have to wait for ever. Give JoinWindows(before=..., after=..., grace=...),"
                " or join with a table.",
                declared_at=declaration_site(),
            )
        check_join_windows(options["windows"])
        self._check_same_builder(other, "join")
        from logstate.topology.dsl.stream_stream_join import StreamStreamJoin

        options["store"] = materialized(options.get("store"))
        return StreamStreamJoin(self, other, joiner, kind=kind, **options).build()
