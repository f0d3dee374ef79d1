"""Building operators that forward the first records of a key: deduplication, distinct, throttle.

Each is a repartition where keys may have changed, the store and the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypedDict, TypeVar

from logstate.contracts.serde import Serde
from logstate.serdes.scalars import boolean, int64
from logstate.topology.declaring.argument_checks import check_options
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.naming import required_name
from logstate.topology.declaring.serde_arguments import required_serde
from logstate.topology.declaring.windows import TumblingWindows, are_tumbling, duration_ms
from logstate.topology.dsl.late_streams import add_late_stream
from logstate.topology.dsl.materialized import (
    Materialized,
    key_value_spec,
    materialized,
    refuse_options,
    windowed_spec,
)
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.graph.nodes import ProcessorNode
from logstate.topology.operators.streams.deduplicate import DeduplicateNode
from logstate.topology.operators.streams.distinct import DistinctNode
from logstate.topology.operators.streams.key_and_id_serde import KeyAndIdSerde

S = TypeVar("S", bound=StreamFlow[Any, Any])


class KeyOptions(TypedDict, total=False):
    """Options of a deduplication by key: its store, serdes of the stream, name, late stream."""

    store: str | Materialized | None
    key: Any
    value: Any
    name: str | None
    late: str | None


class IdOptions(KeyOptions, total=False):
    """Options of a deduplication by key and id: those, and the serde of the ids."""

    id: Any


def deduplicated(
    stream: S,
    interval: timedelta,
    id_selector: Callable[[Any, Any], Any] | None,
    given: Mapping[str, Any],
) -> S:
    """The stream without duplicates: by its key, or by its key and what the selector returns."""
    options = dict(given)
    if id_selector is None:
        check_options(options, KeyOptions, "deduplicate_by_key")
    else:
        check_options(options, IdOptions, "deduplicate_by_key_value")
    return _deduplicated(stream, interval, id_selector, **options)


def _deduplicated(
    stream: S,
    interval: timedelta,
    id_selector: Callable[[Any, Any], Any] | None,
    *,
    store: str | Materialized | None = None,
    key: Any = None,
    value: Any = None,
    id: Any = None,  # noqa: A002  as users write it
    name: str | None = None,
    late: str | None = None,
) -> S:
    interval_ms = duration_ms(interval, "the interval of a deduplication", at_least=1)
    kept = _store_of_times(store, name, "a deduplication")
    if isinstance(kept.retention, timedelta) and kept.retention / 3 < interval:
        raise declaration_error(
            f"Store {kept.name!r} of a deduplication has a retention of {kept.retention}, shorter"
            f" than three intervals of {interval}: a record that is one interval behind would"
            " not find the records forwarded before it. Lengthen it, or leave it out."
        )
    use = f"deduplication {kept.name!r}"
    keys = _keys(stream, kept, use, key, id, has_id=id_selector is not None)
    windows = TumblingWindows(size=interval)
    windows.grace_ms = 2 * interval_ms  # a timedelta may not have twice of it
    spec = windowed_spec(
        kept, keys, boolean, stream.builder.defaults, windows=windows, keep_at_retention=False
    )
    stream = stream._behind_its_key(name or kept.name, use, key, value)
    node = stream._node(
        DeduplicateNode,
        name,
        "KSTREAM-DEDUPLICATE-",
        interval_ms=interval_ms,
        store=spec,
        id_selector=id_selector,
    )
    return _passed_on(stream, node, key, value, late)


def distinct(
    stream: S,
    id_selector: Callable[[Any, Any], Any] | None,
    windows: TumblingWindows | None,
    given: Mapping[str, Any],
) -> S:
    """The first records of the stream, by key, or by key and what the selector returns."""
    options = dict(given)
    check_options(options, KeyOptions if id_selector is None else IdOptions, "distinct")
    return _distinct(stream, id_selector, windows, **options)


def _distinct(
    stream: S,
    id_selector: Callable[[Any, Any], Any] | None,
    windows: Any,
    *,
    store: str | Materialized | None = None,
    key: Any = None,
    value: Any = None,
    id: Any = None,  # noqa: A002  as users write it
    name: str | None = None,
    late: str | None = None,
) -> S:
    kept = _store_of_times(store, name, "distinct()")
    use = f"distinct() {kept.name!r}"
    keys = _keys(stream, kept, use, key, id, has_id=id_selector is not None)
    defaults = stream.builder.defaults
    if windows is None:
        _check_without_windows(kept, late)
        spec = key_value_spec(kept, keys, boolean, defaults)
    else:
        if not are_tumbling(windows):
            raise declaration_error(
                f"windows= of distinct() must be TumblingWindows, found {windows!r}: a record that"
                " is in several windows, or in none, would be forwarded for some of them. For a"
                " time since the last forwarded record use deduplicate_by_key(interval); for other"
                ' windows windowed_by(...).agg(first=First(...), emit="close").'
            )
        spec = windowed_spec(
            kept, keys, boolean, defaults, windows=windows, keep_at_retention=False
        )
    stream = stream._behind_its_key(name or kept.name, use, key, value)
    node = stream._node(
        DistinctNode,
        name,
        "KSTREAM-DISTINCT-",
        store=spec,
        windows=windows,
        id_selector=id_selector,
    )
    return _passed_on(stream, node, key, value, late)


def throttled(stream: S, n: int, windows: TumblingWindows, given: Mapping[str, Any]) -> S:
    """The first ``n`` records of each key in each window."""
    options = dict(given)
    check_options(options, KeyOptions, "throttle")
    return _throttled(stream, n, windows, **options)


def _throttled(
    stream: S,
    n: Any,
    windows: Any,
    *,
    store: str | Materialized | None = None,
    key: Any = None,
    value: Any = None,
    name: str | None = None,
    late: str | None = None,
) -> S:
    if type(n) is not int or n < 1:
        raise declaration_error(
            f"n of throttle() must be an integer of at least 1, found {n!r}. It is the number of"
            " records of a key that a window forwards."
        )
    if not are_tumbling(windows):
        raise declaration_error(
            f"windows of throttle() must be TumblingWindows, found {windows!r}: a record that is in"
            " several windows, or in none, could be over the limit in some of them only."
        )
    kept = _store_of_times(store, name, "throttle()")
    use = f"throttle() {kept.name!r}"
    keys = stream._key_serde(key if kept.key is None else kept.key, use)
    defaults = stream.builder.defaults
    spec = windowed_spec(kept, keys, int64, defaults, windows=windows, keep_at_retention=False)
    stream = stream._behind_its_key(name or kept.name, use, key, value)
    node = stream._node(
        DistinctNode, name, "KSTREAM-THROTTLE-", store=spec, windows=windows, limit=n
    )
    return _passed_on(stream, node, key, value, late)


def _check_without_windows(kept: Materialized, late: str | None) -> None:
    if late is not None:
        raise declaration_error(
            f"distinct() has late={late!r}, but without windows no record is late. Leave it out, or"
            " give windows=TumblingWindows(...)."
        )
    why = "a row that is removed or has versions would let a second record of its key pass"
    remedy = (
        "Give windows=TumblingWindows(...) to bound the store, or use deduplicate_by_key(interval)."
    )
    refuse_options(kept, "distinct()", {"history": why, "capacity": why}, remedy)


def _store_of_times(store: str | Materialized | None, name: str | None, what: str) -> Materialized:
    """The options of the store, whose rows are times of forwarded records."""
    kept = materialized(store)
    if kept is None:
        why = "its store has a changelog topic"
        operator = what[0].upper() + what[1:]
        kept = Materialized(required_name(name, operator, why, 'store="..." or name="..."'))
    refuse_options(kept, what, {"indexes": f"it is a store of {what}"})
    if kept.value is not None:
        raise declaration_error(
            f"Store {kept.name!r} of {what} has value=, but its rows only contain the times of"
            " forwarded records. Leave it out."
        )
    return kept


def _keys(
    stream: StreamFlow[Any, Any], kept: Materialized, use: str, key: Any, id_: Any, *, has_id: bool
) -> Serde[Any]:
    """The serde of the store's keys."""
    keys = stream._key_serde(key if kept.key is None else kept.key, use)
    if not has_id:
        return keys
    return KeyAndIdSerde(keys, required_serde(id_, None, f"the id of {use}", "id="))


def _passed_on(stream: S, node: ProcessorNode, key: Any, value: Any, late: str | None) -> S:
    """The stream of the records that an operator forwards unchanged."""
    below = stream._below(node, keeps_value=True, key=key, value=value)
    below.logical.relaxed_null_key = True
    add_late_stream(late, [below.logical], stream, stream.source_names)
    return below
