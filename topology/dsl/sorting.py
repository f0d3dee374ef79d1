"""Building the sorting of a stream by event time: the store in which records wait, the operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypedDict, TypeVar

from logstate.topology.declaring.argument_checks import check_options
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.naming import required_name
from logstate.topology.declaring.windows import duration_ms
from logstate.topology.dsl.late_streams import add_late_stream
from logstate.topology.dsl.materialized import (
    Materialized,
    key_value_spec,
    materialized,
    refuse_options,
)
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.operators.streams.sort_by_time import SortByTimeNode
from logstate.topology.operators.streams.waiting_record import WaitingKeySerde, WaitingRecordSerde

S = TypeVar("S", bound=StreamFlow[Any, Any])

_NOT_OF_WAITING_RECORDS = {
    "history": "its rows are records that wait, which have no versions",
    "capacity": "it would remove records that wait",
    "ttl": "it would remove records that wait; they leave the store when they are sent",
    "indexes": "its rows are records that wait",
}


class SortOptions(TypedDict, total=False):
    """Options of a sorting: its store, serdes of the stream, idle time, name, late stream."""

    store: str | Materialized | None
    key: Any
    value: Any
    close_on_idle: timedelta | None
    name: str | None
    late: str | None


def sorted_by_time(stream: S, grace: timedelta, given: Mapping[str, Any]) -> S:
    """The records of a stream by their timestamps."""
    options = dict(given)
    check_options(options, SortOptions, "sort_by_time")
    return _sorted(stream, grace, **options)


def _sorted(
    stream: S,
    grace: timedelta,
    *,
    store: str | Materialized | None = None,
    key: Any = None,
    value: Any = None,
    close_on_idle: timedelta | None = None,
    name: str | None = None,
    late: str | None = None,
) -> S:
    grace_ms = duration_ms(grace, "grace of sort_by_time()")
    kept = materialized(store)
    if kept is None:
        why = "the store of its waiting records has a changelog topic"
        kept = Materialized(required_name(name, "sort_by_time()", why, 'store="..." or name="..."'))
    _check_store(kept)
    use = f"store {kept.name!r} of sort_by_time()"
    keys = stream._key_serde(key if kept.key is None else kept.key, use)
    values = stream._value_serde(value if kept.value is None else kept.value, use)
    spec = key_value_spec(
        replace(kept, key=None, value=None, headers=True),
        WaitingKeySerde(keys),
        WaitingRecordSerde(values),
        stream.builder.defaults,
    )
    idle_ms = None
    if close_on_idle is not None:
        idle_ms = duration_ms(close_on_idle, "close_on_idle of sort_by_time()", at_least=1)
    node = stream._node(
        SortByTimeNode, name, "KSTREAM-SORT-", grace_ms=grace_ms, store=spec, idle_ms=idle_ms
    )
    # A repartition topic that is moved above the operator would change what it sorts.
    below = stream._below(node, value_changing=True, keeps_value=True, key=key, value=value)
    below.logical.relaxed_null_key = True
    add_late_stream(late, [below.logical], stream, stream.source_names)
    return below


def _check_store(kept: Materialized) -> None:
    """Refuse options of stores that would lose records that wait."""
    refuse_options(kept, "sort_by_time()", _NOT_OF_WAITING_RECORDS)
    if kept.headers is False:
        raise declaration_error(
            f"Store {kept.name!r} of sort_by_time() has headers=False, but records are forwarded"
            " with their headers. Leave it out."
        )
