"""The stores of the fixtures: every kind that crash tests know, and what only joins declare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from logstate import serdes
from logstate.changelog.rows.writes import LoggedFields
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp
from logstate.topology.operators.aggregates.panes import PaneRow, PaneRowSerde
from logstate.topology.operators.aggregates.rank_serde import Ranked, RankSerde
from logstate.topology.operators.streams.key_and_id_serde import KeyAndIdSerde
from logstate.topology.operators.streams.waiting_record import (
    WaitingKey,
    WaitingKeySerde,
    WaitingRecord,
    WaitingRecordSerde,
)
from tests.unit.changelog.store_bench import BenchContext
from tests.unit.changelog.store_kinds import KINDS, RETENTION_MS, Input, KindUnderTest

#: Records in turn, four to a commit: every key and choice, deletions of what is there and of what
#: is not, late records, a time of 0, a jump over segments that expires what was there.
INPUTS = (
    Input("a", 1, 0, 2),
    Input("aa", 2, 3, 1),
    Input("b", 3, 7, 2),
    Input("a", 4, 12, 3),
    Input("b", None, 9, 1),
    Input("aa", 5, 25, 0),
    Input("a", 6, 61, 2),
    Input("zoë", 7, 44, 3),
    Input("a", None, 61, 2),
    Input("b", -8, 64, 4),
    Input("aa", 9, 64, 1),
    Input("b", 10, 250, 2),
    Input("a", 11, 251, 0),
    Input("aa", 12, 120, 2),
    Input("a", 13, 190, 3),
    Input("b", None, 251, 3),
    Input("aa", 2**40, 262, 2),
    Input("a", 15, 270, 1),
    Input("zoë", None, 270, 2),
    Input("b", 16, 281, 0),
    Input("aa", None, 262, 0),
    Input("a", 17, 283, 4),
)
#: of a record with this choice
HEADERS: dict[int, Headers] = {3: [("h", b"\x00\xff"), ("h", b""), ("none", None)]}
COMMIT_EVERY = 4


def _of_joins() -> Iterator[KindUnderTest]:
    """Stores that differ from those of the crash tests by what is logged, or where."""
    kinds = {kind.name: kind for kind in KINDS}
    duplicates = kinds["window with duplicates"]
    yield replace(
        duplicates,
        name="window of a stream join",
        spec=replace(duplicates.spec, logs_headers=True),
    )
    yield replace(
        duplicates,
        name="window with duplicates in memory",
        spec=replace(duplicates.spec, in_memory=True),
    )
    timestamped = kinds["timestamped window"]
    yield replace(
        timestamped,
        name="timestamped window with headers",
        spec=replace(timestamped.spec, with_headers=True),
    )
    final = kinds["timestamped window of final results"]
    yield replace(
        final,
        name="timestamped window of final results in short segments",
        spec=replace(final.spec, segment_interval_ms=RETENTION_MS // 4),
    )


def _of_tables() -> Iterator[KindUnderTest]:
    """Tables in memory, and those whose log is the topic that they are read from."""
    table = next(kind for kind in KINDS if kind.name == "timestamped")
    yield replace(table, name="timestamped in memory", spec=replace(table.spec, in_memory=True))
    of_topic = replace(
        table,
        name="table of its source topic",
        spec=replace(table.spec, is_logged=False, source_topic="source"),
        process=_put_of_source,
    )
    yield of_topic
    yield replace(of_topic, name="global table", spec=replace(of_topic.spec, in_memory=True))


def _put_of_source(store: Any, one: Input, context: BenchContext) -> None:
    row = None if one.value is None else ValueAndTimestamp(one.value, one.time)
    store.put(one.key, row)


def _of_panes() -> Iterator[KindUnderTest]:
    """The rows of to_pane_stream()."""
    table = next(kind for kind in KINDS if kind.name == "timestamped")
    spec = replace(table.spec, value=PaneRowSerde(table.spec.value))
    yield replace(table, name="timestamped of panes", spec=spec, process=_put_pane_row)


def _put_pane_row(store: Any, one: Input, context: BenchContext) -> None:
    if one.choice == 4:
        store.put(one.key, None)
        return
    sent = None if one.choice == 0 else 10 * one.choice
    row = PaneRow(one.choice, 1, one.time + 5, one.choice == 3, one.value, sent)
    store.put(one.key, ValueAndTimestamp(row, one.time))


def _of_ordered_records() -> Iterator[KindUnderTest]:
    """The rows of sort_by_time() and of the ranking of top_n()."""
    table = next(kind for kind in KINDS if kind.name == "timestamped")
    keys, values = table.spec.key, table.spec.value
    waiting = replace(
        table.spec,
        key=WaitingKeySerde(keys),
        value=WaitingRecordSerde(values),
        with_headers=True,
    )
    yield KindUnderTest("timestamped of waiting records", waiting, _put_waiting, _rows_of)
    ranks = RankSerde(serdes.ordered(int), values)
    ranked = replace(table.spec, key=KeyAndIdSerde(keys, ranks))
    yield KindUnderTest("timestamped of ranked values", ranked, _put_ranked, _rows_of)


def _rows_of(store: Any, clock: int) -> Any:
    return list(store.all())


def _put_waiting(store: Any, one: Input, context: BenchContext) -> None:
    if one.choice == 4:
        first, _ = next(store.all())
        store.put(first, None)
        return
    key = WaitingKey(one.time, one.choice, None if one.choice == 0 else one.key)
    record = WaitingRecord(one.value, "in" if one.choice else None, one.choice, one.time)
    store.put(key, ValueAndTimestamp(record, one.time, HEADERS.get(one.choice)))


def _put_ranked(store: Any, one: Input, context: BenchContext) -> None:
    if one.value is None:
        first, _ = next(store.all())
        store.put(first, None)
        return
    key = one.key, Ranked(one.choice - 2, one.value)
    store.put(key, ValueAndTimestamp(one.choice + 1, one.time))


def record_of_source(spec: StoreSpec, one: Input) -> LoggedFields:
    """The record of a table's topic that stands for what is put."""
    topic = spec.source_topic
    assert topic is not None
    value = None if one.value is None else spec.value.serializer(topic, False)(one.value)
    key = spec.key.serializer(topic, True)(one.key)
    assert key is not None
    return key, value, one.time, HEADERS.get(one.choice)


def _named(kind: KindUnderTest) -> KindUnderTest:
    """With the kind's name as that of its store: they share a task."""
    return replace(kind, spec=replace(kind.spec, name=kind.name.replace(" ", "-")))


STORES = {
    kind.spec.name: kind
    for kind in map(
        _named, (*KINDS, *_of_joins(), *_of_tables(), *_of_panes(), *_of_ordered_records())
    )
}
