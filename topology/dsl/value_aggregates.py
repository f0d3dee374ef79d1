"""The aggregates that keep some of the values: extremes, first and last, distinct, top, lists."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, ClassVar, Generic

from logstate.contracts.setting_rules import shown
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.dsl.aggregates import Aggregate, FieldAggregate, N, V_contra

_BEYOND_LIMIT = "does not keep the values beyond its limit. Leave the limit out"


class _OneValue(FieldAggregate[V_contra, N, Any, N], Generic[V_contra, N]):
    """One of the values; None without values."""

    #: which one, and the text of it over the list of all values
    kept: ClassVar[tuple[str, str]]

    def merge(self, a: Any, b: Any) -> Any:
        """The one of both sessions, of which ``a`` is the earlier one."""
        return a if b is None else self.take(a, b)

    def types(self, field: Any) -> tuple[tuple[Any, ...], Any]:
        """That of the field, or None."""
        type_ = Any if field is Any else field | None
        return (type_,), type_

    @property
    def refusal(self) -> str | None:
        """The others are not in the state."""
        return _without_others(*self.kept)


class Min(_OneValue[V_contra, N], Generic[V_contra, N]):
    """The least ``field(value)``; None without values. Values have to be comparable.

    >>> from logstate import Min, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> bids = builder.stream("bids", value=int).group_by_key()
    >>> bids.agg(low=Min(lambda cents: cents), store="s").to_stream().to("low")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("bids", [("lamp", 7, 0), ("lamp", 5, 1), ("lamp", 9, 2)])
    ...     driver.read("low", value=dict)
    [('lamp', {'low': 7}), ('lamp', {'low': 5}), ('lamp', {'low': 5})]

    Semantics:
        Null value: ignored.
        Tables: refused, because the second least value is not in the state.

    Source: SQL's ``MIN``.
    """

    kept = ("the least", "min(row.{name})")
    takes = "values of one type that have an order (<)"
    statements = "if {result} is None or {x} < {result}:\n    {result} = {x}"

    def take(self, state: Any, value: Any) -> Any:
        """The lesser one; the first of equal ones."""
        return value if state is None or value < state else state


class Max(_OneValue[V_contra, N], Generic[V_contra, N]):
    """The greatest ``field(value)``; None without values. Values have to be comparable.

    >>> from logstate import Max, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> bids = builder.stream("bids", value=int).group_by_key()
    >>> bids.agg(high=Max(lambda cents: cents), store="s").to_stream().to("high")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("bids", [("lamp", 7, 0), ("lamp", 5, 1), ("lamp", 9, 2)])
    ...     driver.read("high", value=dict)
    [('lamp', {'high': 7}), ('lamp', {'high': 7}), ('lamp', {'high': 9})]

    Semantics: as :class:`Min`.

    Source: SQL's ``MAX``.
    """

    kept = ("the greatest", "max(row.{name})")
    takes = "values of one type that have an order (<)"
    statements = "if {result} is None or {x} > {result}:\n    {result} = {x}"

    def take(self, state: Any, value: Any) -> Any:
        """The greater one; the first of equal ones."""
        return value if state is None or value > state else state


class First(_OneValue[V_contra, N], Generic[V_contra, N]):
    """The ``field(value)`` that arrived first; None without values.

    >>> from logstate import First, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", value=str).group_by_key()
    >>> clicks.agg(entry=First(lambda page: page), store="s").to_stream().to("entries")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("clicks", [("ada", "tea", 0), ("ada", "rum", 1)])
    ...     driver.read("entries", value=dict)
    [('ada', {'entry': 'tea'}), ('ada', {'entry': 'tea'})]

    Semantics:
        Null value: ignored.
        Out-of-order records: the order of arrival counts; of sessions that merge, the earlier one.
        Tables: refused, because the second value is not in the state.

    Source: Flink's ``FIRST_VALUE``, ksqlDB's ``EARLIEST_BY_OFFSET``.
    """

    kept = ("the first", "row.{name}[0]")
    statements = "if {result} is None:\n    {result} = {x}"

    def take(self, state: Any, value: Any) -> Any:
        """The first one."""
        return value if state is None else state


class Last(_OneValue[V_contra, N], Generic[V_contra, N]):
    """The ``field(value)`` that arrived last; None without values.

    >>> from logstate import Last, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", value=str).group_by_key()
    >>> clicks.agg(exit=Last(lambda page: page), store="s").to_stream().to("exits")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("clicks", [("ada", "tea", 0), ("ada", "rum", 1)])
    ...     driver.read("exits", value=dict)
    [('ada', {'exit': 'tea'}), ('ada', {'exit': 'rum'})]

    Semantics: as :class:`First`, but
        Out-of-order records: the order of arrival counts; of sessions that merge, the later one.

    Source: Flink's ``LAST_VALUE``, ksqlDB's ``LATEST_BY_OFFSET``.
    """

    kept = ("the last", "row.{name}[-1]")
    statements = "{result} = {x}"

    def take(self, state: Any, value: Any) -> Any:  # noqa: ARG002
        """The last one."""
        return value


class CountDistinct(FieldAggregate[V_contra, Any, Any, int], Generic[V_contra]):
    """The number of different ``field(value)``. Values have to be comparable with one another.

    >>> from logstate import CountDistinct, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", value=str).group_by_key()
    >>> clicks.agg(pages=CountDistinct(lambda page: page), store="s").to_stream().to("pages")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("clicks", [("ada", "tea", 0), ("ada", "rum", 1), ("ada", "tea", 2)])
    ...     driver.read("pages", value=dict)
    [('ada', {'pages': 1}), ('ada', {'pages': 2}), ('ada', {'pages': 2})]

    The row of the store also has ``<field>_values``, the different values in ascending order: its
    size grows with their number. ``limit`` bounds it: the result is the smaller one of the number
    and the limit, so a result below the limit is exact, and the limit means that many or more. A
    row that has reached the limit has no values, ``<field>_values`` is None, and does not change.

    Semantics:
        Null value: ignored.
        Sessions that merge: values of both count once, and the limit is that of a single session.
        Tables: subtracted; the row also has the number of occurrences of each value. With a
            ``limit`` refused, because the values beyond it are not in the state.

    Raises:
        TopologyError: ``limit`` is not a positive integer.

    Source: SQL's ``COUNT(DISTINCT ...)``; the limit is that of ``LIMIT`` in a subquery:
    ``SELECT COUNT(*) FROM (SELECT DISTINCT ... LIMIT n)``.
    """

    takes = "values of one type that have an order (<)"
    parts = ("values",)
    first = ()

    def __init__(
        self,
        field: Callable[[V_contra], Any],
        returns: type[Any] | None = None,
        *,
        limit: int | None = None,
    ) -> None:
        super().__init__(field, returns)
        self.limit = None if limit is None else _positive(limit, "limit of CountDistinct")

    def take(self, state: Any, value: Any) -> Any:
        """The values, and this one if it is new; None once the limit is reached."""
        if state is None:
            return None
        place = bisect_left(state, value)
        if place < len(state) and state[place] == value:
            return state
        if len(state) + 1 == self.limit:
            return None
        return (*state[:place], value, *state[place:])

    def merge(self, a: Any, b: Any) -> Any:
        """The values of both."""
        if b is None:
            return None
        for value in b:
            a = self.take(a, value)
        return a

    def result(self, state: Any) -> Any:
        """How many there are, at most the limit."""
        return self.limit if state is None else len(state)

    def types(self, field: Any) -> tuple[tuple[Any, ...], Any]:
        """A sorted array, or None where a limit is reached."""
        values = tuple[field, ...]
        return (values if self.limit is None else values | None,), int

    def for_table(self) -> Aggregate[Any, Any, Any]:
        """One that also counts each value."""
        return _DistinctOfRows(self.field, self.returns) if self.limit is None else self

    @property
    def refusal(self) -> str | None:
        """The values beyond the limit are not in the state."""
        return None if self.limit is None else _BEYOND_LIMIT


class _DistinctOfRows(FieldAggregate[Any, Any, Any, int]):
    """Different values in ascending order, and how often each occurs."""

    takes = "values of one type that have an order (<)"
    parts = ("values", "counts")
    first = ((), ())

    def take(self, state: Any, value: Any) -> Any:
        values, counts = state
        place = bisect_left(values, value)
        if place < len(values) and values[place] == value:
            return values, (*counts[:place], counts[place] + 1, *counts[place + 1 :])
        return (
            (*values[:place], value, *values[place:]),
            (*counts[:place], 1, *counts[place:]),
        )

    def drop(self, state: Any, value: Any) -> Any:
        values, counts = state
        place = bisect_left(values, value)
        if place == len(values) or values[place] != value:
            return state
        if counts[place] > 1:
            return values, (*counts[:place], counts[place] - 1, *counts[place + 1 :])
        return (*values[:place], *values[place + 1 :]), (*counts[:place], *counts[place + 1 :])

    def result(self, state: Any) -> int:
        return len(state[0])

    def types(self, field: Any) -> tuple[tuple[Any, ...], Any]:
        return (tuple[field, ...], tuple[int, ...]), int


class TopN(FieldAggregate[V_contra, N, tuple[N, ...], tuple[N, ...]], Generic[V_contra, N]):
    """The ``n`` greatest ``field(value)``, greatest first. Values have to be comparable.

    >>> from logstate import StreamsBuilder, TopN, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> bids = builder.stream("bids", value=int).group_by_key()
    >>> bids.agg(best=TopN(lambda cents: cents, 2), store="s").to_stream().to("best")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("bids", [("lamp", 7, 0), ("lamp", 9, 1), ("lamp", 8, 2)])
    ...     driver.read("best", value=dict)
    [('lamp', {'best': [7]}), ('lamp', {'best': [9, 7]}), ('lamp', {'best': [9, 8]})]

    ``by`` ranks the values by another key, and the values are kept whole:
    ``TopN(lambda bid: bid, 10, Bid, by=lambda bid: bid.cents)``. It is a function of what ``field``
    returns, as ``key=`` of ``sorted``, called for the new value and for values in the row.

    Semantics:
        Null value: ignored, as is a value for which ``by`` returns None.
        Order: equal values, or those with equal keys, remain in the order of their arrival; of
            sessions that merge, those of the earlier one come first.
        Tables: refused, because the next value is not in the state.

    Source: ksqlDB's ``TOPK``.
    """

    takes = "values of one type that have an order (<)"
    first = ()

    def __init__(
        self,
        field: Callable[[V_contra], N],
        n: int,
        returns: type[N] | None = None,
        *,
        by: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(field, returns)
        self.n = _positive(n, "n of TopN")
        self.by = by
        if by is not None:
            callbacks.of_shape(by, "by of TopN", "(value)", 1)

    def take(self, state: Any, value: Any) -> Any:
        """The values with this one, if it belongs to the greatest."""
        place, by = len(state), self.by
        if by is None:
            while place and state[place - 1] < value:
                place -= 1
        else:
            key = by(value)
            if key is None:
                return state
            while place and by(state[place - 1]) < key:
                place -= 1
        if place == self.n:
            return state
        return (*state[:place], value, *state[place : self.n - 1])

    def merge(self, a: Any, b: Any) -> Any:
        """The greatest ones of both."""
        for value in b:
            a = self.take(a, value)
        return a

    def types(self, field: Any) -> tuple[tuple[Any, ...], Any]:
        """An array."""
        return (tuple[field, ...],), tuple[field, ...]

    @property
    def refusal(self) -> str | None:
        """The next value is not in the state."""
        key = "" if self.by is None else "key=..., "
        return _without_others(
            "the greatest", f"sorted(row.{{name}}, {key}reverse=True)[:{self.n}]"
        )


class Collect(FieldAggregate[V_contra, N, tuple[N, ...], tuple[N, ...]], Generic[V_contra, N]):
    """All ``field(value)`` in the order of their arrival, or the first ``limit``.

    >>> from logstate import Collect, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", value=str).group_by_key()
    >>> clicks.agg(pages=Collect(lambda page: page, limit=2), store="s").to_stream().to("pages")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("clicks", [("ada", "tea", 0), ("ada", "rum", 1), ("ada", "gin", 2)])
    ...     driver.read("pages", value=dict)[1:]
    [('ada', {'pages': ['tea', 'rum']}), ('ada', {'pages': ['tea', 'rum']})]

    Every change writes the whole row, so give a ``limit`` unless groups are small.

    Semantics:
        Null value: ignored.
        Order: of arrival; of sessions that merge, the values of the earlier one come first.
        Tables: the first equal value is removed; with a ``limit`` refused, because the values
            beyond it are not in the state.

    Source: ksqlDB's ``COLLECT_LIST``.
    """

    first = ()

    def __init__(
        self,
        field: Callable[[V_contra], N],
        *,
        limit: int | None = None,
        returns: type[N] | None = None,
    ) -> None:
        super().__init__(field, returns)
        self.limit = None if limit is None else _positive(limit, "limit of Collect")

    def take(self, state: Any, value: Any) -> Any:
        """The values and this one, below the limit."""
        return state if self.limit is not None and len(state) >= self.limit else (*state, value)

    def drop(self, state: Any, value: Any) -> Any:
        """The values without the first equal one."""
        place = next((place for place, one in enumerate(state) if one == value), None)
        return state if place is None else (*state[:place], *state[place + 1 :])

    def merge(self, a: Any, b: Any) -> Any:
        """Those of both, below the limit."""
        return (*a, *b)[: self.limit]

    def types(self, field: Any) -> tuple[tuple[Any, ...], Any]:
        """An array."""
        return (tuple[field, ...],), tuple[field, ...]

    @property
    def refusal(self) -> str | None:
        """The values beyond the limit are not in the state."""
        return None if self.limit is None else _BEYOND_LIMIT


def _without_others(which: str, expression: str) -> str:
    return (
        f"keeps only {which}, so the others are not known after it left the group. Use"
        " {name}=Collect(...), which keeps all values, and below the table"
        f" map_values(lambda row: {expression})"
    )


def _positive(count: object, what: str) -> int:
    if type(count) is not int or count < 1:
        raise declaration_error(
            f"{what} must be a positive integer, found {shown(count)}. It is how many are kept."
        )
    return count
