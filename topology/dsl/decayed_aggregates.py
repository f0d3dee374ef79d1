"""Aggregates whose values lose weight with event time.

The state is as of the newest time of the values: a value that is ``half_life`` older has half the
weight of a new one. A newer value lowers the weights of all others at once, by one multiplication;
an older one is added with the weight that it has by then. So the order of arrival only changes
rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic

from logstate.contracts.record_parts import timestamp_of
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.windows import duration_ms
from logstate.topology.dsl.aggregates import Aggregate, V_contra, float_of


class _Decayed(Aggregate[V_contra, Any, float], Generic[V_contra]):
    """State: sum of the weighted values, None without values; sum of the weights; newest time."""

    parts = ("", "weight", "at_ms")

    def __init__(
        self,
        field: Callable[[V_contra], float | None],
        *,
        half_life: timedelta,
        at: Callable[[V_contra], int],
    ) -> None:
        name = type(self).__name__
        callbacks.of_shape(field, f"field of {name}", "(value)", 1)
        callbacks.of_shape(at, f"at of {name}", "(value)", 1)
        self.field, self.at = field, at
        self.half_life_ms = duration_ms(half_life, f"half_life of {name}", at_least=1)

    def initial(self) -> Any:
        """No values."""
        return None, 0.0, 0

    def add(self, state: Any, value: V_contra) -> Any:
        """The state with a value; unchanged if its field is None."""
        found = self.field(value)
        if found is None:
            return state
        at_ms = timestamp_of(self.at(value), f"at of {type(self).__name__} returned")
        return self.merge(state, (float_of(found), 1.0, at_ms))

    def merge(self, a: Any, b: Any) -> Any:
        """The state as of the newer time of both."""
        if a[0] is None or b[0] is None:
            return b if a[0] is None else a
        if a[2] < b[2]:
            a, b = b, a
        factor = 0.5 ** ((a[2] - b[2]) / self.half_life_ms)
        return a[0] + b[0] * factor, a[1] + b[1] * factor, a[2]

    def types(self, field: Any) -> tuple[tuple[Any, ...], Any]:  # noqa: ARG002
        """Floats, and the time in ms."""
        return (float | None, float, int), float | None

    @property
    def refusal(self) -> str | None:
        """Subtraction would leave rounding errors that grow relative to what is left."""
        return (
            "does not subtract: what is left of old values is smaller than the rounding error of"
            " new ones. Aggregate the stream of changes:"
            f" to_stream().group_by_key().agg({{name}}={type(self).__name__}(...))"
        )


class DecayedSum(_Decayed[V_contra], Generic[V_contra]):
    """The sum of ``field(value)``, with half the weight for each half-life of age; None without.

    >>> from datetime import timedelta
    >>> from logstate import DecayedSum, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> calls = builder.stream("calls", value=dict).group_by_key()
    >>> minute = timedelta(minutes=1)
    >>> rate = DecayedSum(lambda call: 1, half_life=minute, at=lambda call: call["at"])
    >>> calls.agg(rate=rate, store="s").to_stream().to("rates")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     for at in (0, 60_000, 0):
    ...         driver.pipe("calls", "ada", {"at": at})
    ...     [row["rate"] for _, row in driver.read("rates", value=dict)]
    [1.0, 1.5, 2.0]

    The result is as of the newest ``at(value)`` of the group. The row of the store also has
    ``<field>_weight``, the sum of the weights, and ``<field>_at_ms``, that time. For another
    time ``t``, multiply by ``0.5 ** ((t - at_ms) / half_life_ms)``.

    Semantics:
        Null value: ignored, as is a value whose field is None.
        Out-of-order records: have the weight of their age; the order of arrival only changes
            rounding. The same holds for sessions that merge.
        Tables: refused, because the rounding errors of subtractions grow.

    Args:
        field: a function of the record's value that returns a number.
        half_life: after which a value has half its weight; at least 1 ms.
        at: a function of the record's value that returns its time, in ms since the epoch.

    Raises:
        TopologyError: ``half_life`` is shorter than 1 ms, or a function has another shape.

    Source: forward decay (Cormode et al., 2009), with an exponential function.
    """

    def result(self, state: Any) -> Any:
        """The sum."""
        return state[0]


class DecayedMean(_Decayed[V_contra], Generic[V_contra]):
    """The mean of ``field(value)``, weighted by age as :class:`DecayedSum`; None without values.

    >>> from datetime import timedelta
    >>> from logstate import DecayedMean, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> heat = builder.stream("heat", value=dict).group_by_key()
    >>> options = {"half_life": timedelta(seconds=10), "at": lambda reading: reading["at"]}
    >>> smooth = DecayedMean(lambda reading: reading["degrees"], **options)
    >>> heat.agg(smooth=smooth, store="s").to_stream().to("smooth")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe("heat", "oven", {"degrees": 180.0, "at": 0})
    ...     driver.pipe("heat", "oven", {"degrees": 210.0, "at": 10_000})
    ...     [row["smooth"] for _, row in driver.read("smooth", value=dict)]
    [180.0, 200.0]

    ``Ewma`` weighs by the order of arrival instead, so a pause changes nothing there.

    Semantics: as of :class:`DecayedSum`. The result does not change with time alone.

    Args:
        field: a function of the record's value that returns a number.
        half_life: after which a value has half its weight; at least 1 ms.
        at: a function of the record's value that returns its time, in ms since the epoch.

    Raises:
        TopologyError: ``half_life`` is shorter than 1 ms, or a function has another shape.

    Source: forward decay (Cormode et al., 2009); pandas' ``ewm(halflife=..., times=...)``.
    """

    parts = ("sum", "weight", "at_ms")

    def result(self, state: Any) -> Any:
        """The mean. The newest value has the weight 1, so the sum of the weights is at least 1."""
        return None if state[0] is None else state[0] / state[1]
