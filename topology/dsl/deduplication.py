"""Building a deduplication: a repartition where keys may have changed, the store, the operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypedDict, TypeVar

from logstate.serdes.scalars import boolean
from logstate.topology.declaring.argument_checks import check_options
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.naming import required_name
from logstate.topology.declaring.serde_arguments import required_serde
from logstate.topology.declaring.windows import TumblingWindows, duration_ms
from logstate.topology.dsl.late_streams import add_late_stream
from logstate.topology.dsl.materialized import Materialized, materialized, windowed_spec
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.operators.streams.deduplicate import DeduplicateNode
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
    kept = materialized(store)
    if kept is None:
        why = "its store has a changelog topic"
        kept = Materialized(
            required_name(name, "A deduplication", why, 'store="..." or name="..."')
        )
    if isinstance(kept.retention, timedelta) and kept.retention / 3 < interval:
        raise declaration_error(
            f"Store {kept.name!r} of a deduplication has a retention of {kept.retention}, shorter"
            f" than three intervals of {interval}: a record that is one interval behind would"
            " not find the records forwarded before it. Lengthen it, or leave it out."
        )
    if kept.value is not None:
        raise declaration_error(
            f"Store {kept.name!r} of a deduplication has value=, but its rows only contain the"
            " times of forwarded records. Leave it out."
        )
    use = f"deduplication {kept.name!r}"
    keys = stream._key_serde(key if kept.key is None else kept.key, use)
    if id_selector is not None:
        keys = KeyAndIdSerde(keys, required_serde(id, None, f"the id of {use}", "id="))
    windows = TumblingWindows(size=interval)
    windows.grace_ms = 2 * interval_ms  # a timedelta may not have twice of it
    spec = windowed_spec(
        kept, keys, boolean, stream.builder.defaults, windows=windows, keep_at_retention=False
    )
    if stream.needs_repartition:
        stream = stream._through_topic(
            name or kept.name, stream._key_serde(key, use), stream._value_serde(value, use)
        )
    node = stream._node(
        DeduplicateNode,
        name,
        "KSTREAM-DEDUPLICATE-",
        interval_ms=interval_ms,
        store=spec,
        id_selector=id_selector,
    )
    below = stream._below(node, keeps_value=True, key=key, value=value)
    below.logical.relaxed_null_key = True
    add_late_stream(late, [below.logical], stream, stream.source_names)
    return below
