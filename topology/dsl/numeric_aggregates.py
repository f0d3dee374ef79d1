"""The aggregates of numbers: counts, sums, means, decayed means, deviations."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Generic, overload

from logstate.contracts.setting_rules import shown
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.dsl.aggregates import Aggregate, FieldAggregate, N, V_contra, float_of

#: of a field whose type is not known
_NUMBER = int | float


class Count(FieldAggregate[V_contra, Any, int, int], Generic[V_contra]):
    """The number of records, or of those in which ``field(value)`` is not None.

    >>> from logstate import Count, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> orders = builder.stream("orders", value=dict).group_by_key()
    >>> counts = orders.agg(orders=Count(), paid=Count(lambda order: order["paid"]), store="s")
    >>> counts.to_stream().to("counts")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("orders", [("ada", {"paid": 5}, 0), ("ada", {"paid": None}, 1)])
    ...     driver.read("counts", value=dict)
    [('ada', {'orders': 1, 'paid': 1}), ('ada', {'orders': 2, 'paid': 1})]

    Semantics:
        Null value: counted by ``Count()`` in the windows in which ``count()`` counts it.
        Tables: subtracted.

    Source: SQL's ``COUNT``.
    """

    first = 0
    statements = "{result} += 1"

    @overload
    def __init__(self: Count[object]) -> None: ...
    @overload
    def __init__(self, field: Callable[[V_contra], object]) -> None: ...
    def __init__(self, field: Callable[[Any], Any] | None = None) -> None:
        #: whether it counts records, those without a value included
        self.counts_records = field is None
        super().__init__(_identity if field is None else field)

    def take(self, state: int, value: Any) -> int:  # noqa: ARG002
        """One more."""
        return state + 1

    def drop(self, state: int, value: Any) -> int:  # noqa: ARG002
        """One less."""
        return state - 1

    def merge(self, a: int, b: int) -> int:
        """Those of both."""
        return a + b

    def difference(self, new: int, old: int) -> int:
        """How many more."""
        return new - old

    def types(self, field: Any) -> tuple[tuple[Any, ...], Any]:  # noqa: ARG002
        """Whole numbers."""
        return (int,), int


class Sum(FieldAggregate[V_contra, N, Any, N], Generic[V_contra, N]):
    """The sum of ``field(value)``, added in the order of the records; None without values.

    >>> from logstate import StreamsBuilder, Sum, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> orders = builder.stream("orders", value=int).group_by_key()
    >>> orders.agg(cents=Sum(lambda cents: cents), store="s").to_stream().to("spend")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("orders", [("ada", 250, 0), ("ada", 125, 1)])
    ...     driver.read("spend", value=dict)
    [('ada', {'cents': 250}), ('ada', {'cents': 375})]

    ``returns`` is the type of the field's values, for a function that does not declare it.

    Semantics:
        Null value: ignored.
        Tables: subtracted; the row also has the number of values, so that a sum of none is None.
        Floats: equal to those of a loop over the records; sessions that merge add their sums, and a
            table subtracts, so rounding may differ there.

    Source: SQL's ``SUM``.
    """

    takes = "values that can be added (+)"
    statements = "{result} = {x} if {result} is None else {result} + {x}"

    def take(self, state: Any, value: Any) -> Any:
        """The sum with one more value."""
        return value if state is None else state + value

    def merge(self, a: Any, b: Any) -> Any:
        """The sum of both."""
        return b if a is None else a if b is None else a + b

    def difference(self, new: Any, old: Any) -> Any:
        """How much more; a sum of no values is nothing."""
        return new if old is None else -old if new is None else new - old

    def types(self, field: Any) -> tuple[tuple[Any, ...], Any]:
        """Those of the field, or None."""
        type_ = (_NUMBER if field is Any else field) | None
        return (type_,), type_

    def for_table(self) -> Aggregate[Any, Any, Any]:
        """A sum that knows how many values it has."""
        return _SumOfRows(self.field, self.returns)


class _SumOfRows(FieldAggregate[Any, Any, Any, Any]):
    """A sum and the number of its values."""

    takes = "values that can be added (+)"
    parts = ("", "count")
    first = (None, 0)
    statements = f"{Sum.statements}\n{{count}} += 1"

    def take(self, state: Any, value: Any) -> Any:
        sum_, count = state
        return (value if sum_ is None else sum_ + value), count + 1

    def drop(self, state: Any, value: Any) -> Any:
        sum_, count = state
        return (sum_ - value, count - 1) if count > 1 else self.first

    difference = Sum.difference

    def types(self, field: Any) -> tuple[tuple[Any, ...], Any]:
        type_ = (_NUMBER if field is Any else field) | None
        return (type_, int), type_


class Mean(FieldAggregate[V_contra, Any, Any, float], Generic[V_contra]):
    """The mean of ``field(value)``; None without values.

    >>> from logstate import Mean, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> orders = builder.stream("orders", value=int).group_by_key()
    >>> orders.agg(mean=Mean(lambda cents: cents), store="s").to_stream().to("means")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("orders", [("ada", 250, 0), ("ada", 125, 1)])
    ...     driver.read("means", value=dict)
    [('ada', {'mean': 250.0}), ('ada', {'mean': 187.5})]

    The row of the store also has the columns ``<field>_sum`` and ``<field>_count``.

    Semantics:
        Null value: ignored.
        Tables: subtracted.
        Floats: the sum is that of :class:`Sum`.

    Source: SQL's ``AVG``.
    """

    takes = "numbers"
    parts = ("sum", "count")
    first = (None, 0)
    statements = """\
{sum} = {x} if {sum} is None else {sum} + {x}
{count} += 1
{result} = {sum} / {count}"""

    def __init__(
        self, field: Callable[[V_contra], float | Decimal | None], returns: type[Any] | None = None
    ) -> None:
        super().__init__(field, returns)

    def take(self, state: Any, value: Any) -> Any:
        """Sum and number with one more value."""
        sum_, count = state
        return (value if sum_ is None else sum_ + value), count + 1

    def drop(self, state: Any, value: Any) -> Any:
        """Sum and number without the value."""
        sum_, count = state
        return (sum_ - value, count - 1) if count > 1 else self.first

    def merge(self, a: Any, b: Any) -> Any:
        """Sum and number of both."""
        return (a[0] + b[0], a[1] + b[1]) if a[1] and b[1] else b if b[1] else a

    def result(self, state: Any) -> Any:
        """The sum divided by the number."""
        sum_, count = state
        return sum_ / count if count else None

    def types(self, field: Any) -> tuple[tuple[Any, ...], Any]:
        """Decimal for decimals, else float."""
        number = _NUMBER if field is Any else field
        return (number | None, int), (Decimal if field is Decimal else float) | None


class StdDev(FieldAggregate[V_contra, Any, Any, float], Generic[V_contra]):
    """The standard deviation of ``field(value)``, by Welford's method.

    >>> from logstate import StdDev, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> heat = builder.stream("heat", value=float).group_by_key()
    >>> heat.agg(spread=StdDev(lambda degrees: degrees), store="s").to_stream().to("spread")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("heat", [("oven", 180.0, 0), ("oven", 190.0, 1), ("oven", 200.0, 2)])
    ...     driver.read("spread", value=dict)[1:]
    [('oven', {'spread': 7.0710678118654755}), ('oven', {'spread': 10.0})]

    ``ddof=1`` divides by one less than the number of values (of a sample; None for one value),
    ``ddof=0`` by their number (of the population). The row of the store also has ``<field>_count``,
    ``<field>_mean`` and ``<field>_m2``, the sum of squared differences from the mean.

    Semantics:
        Null value: ignored.
        Tables: subtracted; rounding errors of removed values remain.

    Source: SQL's ``STDDEV_SAMP`` and ``STDDEV_POP``.
    """

    takes = "numbers"
    parts = ("count", "mean", "m2")
    first = (0, 0.0, 0.0)

    def __init__(
        self,
        field: Callable[[V_contra], float | None],
        *,
        ddof: int = 1,
    ) -> None:
        super().__init__(field)
        if ddof not in (0, 1):
            raise declaration_error(
                f"ddof of StdDev must be 0 or 1, found {shown(ddof)}. Give 1 for the deviation of"
                " a sample, or 0 for that of the population."
            )
        self.ddof = ddof

    def take(self, state: Any, value: Any) -> Any:
        """One step of Welford's method."""
        count, mean, m2 = state
        count += 1
        difference = value - mean
        mean += difference / count
        return count, mean, m2 + difference * (value - mean)

    def drop(self, state: Any, value: Any) -> Any:
        """The step taken back."""
        count, mean, m2 = state
        if count <= 1:
            return self.first
        before = (count * mean - value) / (count - 1)
        return count - 1, before, max(0.0, m2 - (value - before) * (value - mean))

    def merge(self, a: Any, b: Any) -> Any:
        """Chan's formula."""
        if not a[0] or not b[0]:
            return a if a[0] else b
        count, difference = a[0] + b[0], b[1] - a[1]
        mean = a[1] + difference * b[0] / count
        return count, mean, a[2] + b[2] + difference * difference * a[0] * b[0] / count

    def result(self, state: Any) -> Any:
        """The root of the mean squared difference."""
        count, _, m2 = state
        return math.sqrt(m2 / (count - self.ddof)) if count > self.ddof else None

    def types(self, field: Any) -> tuple[tuple[Any, ...], Any]:  # noqa: ARG002
        """Floats."""
        return (int, float, float), float | None


class Ewma(FieldAggregate[V_contra, Any, Any, float], Generic[V_contra]):
    """The exponentially weighted mean of ``field(value)``; None without values.

    >>> from logstate import Ewma, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> heat = builder.stream("heat", value=float).group_by_key()
    >>> heat.agg(smooth=Ewma(lambda degrees: degrees, alpha=0.5), store="s").to_stream().to("out")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("heat", [("oven", 180.0, 0), ("oven", 210.0, 1)])
    ...     driver.read("out", value=dict)
    [('oven', {'smooth': 180.0}), ('oven', {'smooth': 200.0})]

    The newest value has the weight 1, and each older one ``1 - alpha`` times that of the next newer
    one. The row of the store also has ``<field>_weight``, the sum of the weights.

    Semantics:
        Null value: ignored; it does not lower the weights of older values.
        Out-of-order records: the order of arrival counts, and not the timestamps; of sessions that
            merge, the values of the earlier one are older.
        Tables: refused, because the weight of a row depends on its place in that order.

    Args:
        field: a function of the record's value that returns a number.
        alpha: more than 0, and at most 1, with which the result is the last value.

    Raises:
        TopologyError: ``alpha`` is not a number above 0 and at most 1.

    Source: pandas' and Polars' ``ewm_mean(alpha=..., adjust=True)``.
    """

    takes = "numbers"
    parts = ("", "weight")
    first = (None, 0.0)

    def __init__(self, field: Callable[[V_contra], float | None], *, alpha: float) -> None:
        super().__init__(field)
        given: object = alpha
        if type(given) not in (int, float) or not 0 < alpha <= 1:
            raise declaration_error(
                f"alpha of Ewma must be a number above 0 and at most 1, found {shown(alpha)}. The"
                " larger it is, the sooner old values lose their weight."
            )
        self.alpha = alpha

    def take(self, state: Any, value: Any) -> Any:
        """The mean of older values and this one, which has the weight 1."""
        mean, weight = state
        value = float_of(value)
        older = weight * (1 - self.alpha)
        weight = older + 1.0
        return value if mean is None else mean + (value - mean) / weight, weight

    def merge(self, a: Any, b: Any) -> Any:
        """The mean of both; each value of ``b`` lowers the weights of ``a`` once."""
        if a[0] is None or b[0] is None:
            return b if a[0] is None else a
        older = a[1] * max(0.0, 1 - self.alpha * b[1])
        weight = older + b[1]
        return b[0] + (a[0] - b[0]) * older / weight, weight

    def result(self, state: Any) -> Any:
        """The mean."""
        return state[0]

    def types(self, field: Any) -> tuple[tuple[Any, ...], Any]:  # noqa: ARG002
        """Floats."""
        return (float | None, float), float | None

    @property
    def refusal(self) -> str | None:
        """The order of the rows is not in the state."""
        return (
            "has weights by the order of arrival, which a table's rows do not keep. Use"
            " {name}=Mean(...), or aggregate the stream of changes:"
            " to_stream().group_by_key().agg({name}=Ewma(...))"
        )


def _identity(value: Any) -> Any:
    return value
