"""The stores that every version reads, and what a read of them has to find: written by hand."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from logstate.changelog.cuts.named_cuts import create_cut
from logstate.serdes import json_of
from tests.spark.changelog_writer import (
    ApplicationLog,
    Change,
    int64,
    session_key,
    window_key,
)

#: two versions of one key stand in one commit, and what was deleted stays so
SPEND: dict[int, list[Change]] = {
    0: [
        (b"a", int64(1)),
        (b"b", int64(2)),
        (b"a", int64(3)),
        (b"gone", int64(1)),
        (b"gone", None),
    ],
    1: [(b"c", int64(4)), ("é".encode(), int64(5))],
}
MORE: dict[int, list[Change]] = {0: [(b"a", int64(9)), (b"b", None)], 1: [(b"new", int64(7))]}
SIZE_MS = 60_000


class Inner(msgspec.Struct):
    sku: str
    pieces: int = 1


class Wide(msgspec.Struct):
    """A field of each type that becomes a column of its own."""

    n: int
    rate: float
    ok: bool
    name: str
    at: datetime
    day: date
    price: Decimal
    blob: bytes
    id: UUID
    tags: list[str]
    counts: dict[str, int]
    inner: Inner
    either: int | str
    note: str | None = None


WIDE = Wide(
    -7,
    0.5,
    True,
    "née",
    datetime(2026, 3, 29, 1, 30, 0, 123456, UTC),
    date(2026, 2, 28),
    Decimal("12345678901234567890.000000000000000001"),
    b"\x00\xff",
    UUID(int=7),
    ["x", ""],
    {"one": 1},
    Inner("s"),
    "text",
)
WIDE_TYPE = (
    "struct<n:bigint,rate:double,ok:boolean,name:string,at:timestamp,day:date,price:decimal(38,18),"
    "blob:binary,id:string,tags:array<string>,counts:map<string,bigint>,"
    "inner:struct<sku:string,pieces:bigint>,either:string,note:string>"
)
WIDE_ROW = [
    -7,
    0.5,
    True,
    "née",
    "2026-03-29T01:30:00.123456+00:00",
    "2026-02-28",
    "12345678901234567890.000000000000000001",
    "00ff",
    "00000000-0000-0000-0000-000000000007",
    ["x", ""],
    {"one": 1},
    ["s", 1],
    '"text"',
    None,
]


class WrittenLog:
    """One application's log with a store of each kind, committed up to its end."""

    def __init__(self, bootstrap: str, application: str) -> None:
        self.log = ApplicationLog(bootstrap, application)
        self.start_ms = int(time.time() * 1000) // SIZE_MS * SIZE_MS
        self._positions: dict[int, dict[str, int]] = {0: {}, 1: {}}
        self._write("spend", "key_value", SPEND)
        at = self.start_ms
        windows = [(window_key("a", at), int64(1)), (window_key("a", at + SIZE_MS), int64(2))]
        self._write("hourly", "window", {0: [*windows, (window_key("c", at), int64(3))]})
        sessions = [(session_key("a", at, at + 20), int64(2)), (session_key("a", at, at), None)]
        self._write("visits", "session", {1: sessions})
        prices = [(b"p", int64(1), at), (b"p", int64(2), at + 10_000), (b"q", int64(3), at)]
        self._write("prices", "versioned", {0: [*prices, (b"q", None, at + 5_000)]})
        serde = json_of(Wide)
        described = json.loads(msgspec.json.encode(serde.describe()))
        row = serde.serializer("t", False)(WIDE)
        self._write("wide", "key_value", {0: [(b"w", row)]}, value=described)
        self.log.write_manifest(inputs=[self.log.source])
        for partition in self._positions:
            self.log.write(self.log.source, [(b"k", b"1"), (b"k", b"2")], partition=partition)
        self._commit(1)
        create_cut(bootstrap, application, "before")

    def write_more(self) -> None:
        """One more commit, which changes, deletes and adds."""
        self._append("spend", MORE)
        self._commit(2)

    def _write(self, store: str, kind: str, changes: Any, **more: Any) -> None:
        if kind == "window":
            more["window_size_ms"] = SIZE_MS
        self.log.add_store(store, kind, **more)
        self._append(store, changes)

    def _append(self, store: str, changes: dict[int, list[Change]]) -> None:
        topic = self.log.changelog(store)
        for partition in self._positions:
            end = self._positions[partition].get(topic, 0)
            if changes.get(partition):
                end = self.log.write(topic, changes[partition], partition=partition)
            self._positions[partition][topic] = end

    def _commit(self, input_offset: int) -> None:
        for partition, positions in self._positions.items():
            self.log.commit(input_offset, positions, partition=partition)

    def wanted(self) -> dict[str, Any]:
        """What each check of the program has to find."""
        first, later = feed(SPEND), feed(MORE)
        early = [["a", 3], ["b", 2], ["c", 4], ["é", 5]]
        newest = ordered([["a", 9], ["c", 4], ["é", 5], ["new", 7]])
        return {
            "format_by_name": [],
            "key_value": ordered(early),
            "types": [WIDE_TYPE, ["w", WIDE_ROW]],
            "key_filter": [[["é", 5]], [["c", 4]]],
            "filter_handed_down": "pushed",
            "changes_as_a_table": first,
            "own_session": [["spend"], [[14]]],
            "metadata": self._wanted_metadata(),
            "error_as_a_sentence": ["told", "told"],
            "missing_jars_named": ["told", "told"],
            "stream_available_now": [first],
            "stream_running": [first, later],
            "newest_commit": newest,
            "cut_given_back": ordered(early),
            "named_cut": ordered(early),
            "stream_continued": [later],
            "stream_in_sparks_words": [ordered(SPARKS_WORDS)],
            "limit_of_offsets": [2, True, ordered([*first, *later])],
            "limit_of_records": [len(SPEND[0]), True, ordered([*first, *later])],
            "stream_error_as_a_sentence": "told",
            "views": [newest, newest],
            "backfill": [True] * 6,
            **self._wanted_of_times(),
        }

    def _wanted_of_times(self) -> dict[str, Any]:
        at, size = self.start_ms, SIZE_MS
        return {
            "window": ordered(
                [
                    ["a", iso(at), iso(at + size), 1],
                    ["a", iso(at + size), iso(at + 2 * size), 2],
                    ["c", iso(at), iso(at + size), 3],
                ]
            ),
            "time_filter": [[["a", 2]], [["a", 1], ["c", 3]]],
            "session_windows": [["a", iso(at), iso(at + 20), 2]],
            "versions": ordered(
                [
                    ["p", 1, iso(at), iso(at + 10_000)],
                    ["p", 2, iso(at + 10_000), None],
                    ["q", 3, iso(at), iso(at + 5_000)],
                ]
            ),
            "meta_columns": ordered(META),
            "tables_at_one_cut": ordered([["a", iso(at)], ["a", iso(at + size)], ["c", iso(at)]]),
            "stream_into_files": ordered(
                [["a", iso(at), 1], ["a", iso(at + size), 2], ["c", iso(at), 3]]
            ),
        }

    def _wanted_metadata(self) -> list[Any]:
        kinds = {
            "spend": ("key_value", ("key", "value")),
            "hourly": ("window", ("key", "window_start", "window_end", "value")),
            "visits": ("session", ("key", "window_start", "window_end", "value")),
            "prices": ("versioned", ("key", "value", "valid_from", "valid_to")),
            "wide": ("key_value", ("key", "value")),
        }
        cuts = [
            [cut, store, partition, positions[self.log.changelog(store)]]
            for cut in ("before", "latest-commit")
            for store in kinds
            for partition, positions in self._positions.items()
        ]
        windows = {"hourly": SIZE_MS}
        return [
            [[len(kinds)]],
            ordered([[store, kind, windows.get(store)] for store, (kind, _) in kinds.items()]),
            ordered(
                [[store, column] for store, (_, columns) in kinds.items() for column in columns]
            ),
            ordered(cuts),
            [[self.log.source, partition, 2] for partition in self._positions],
        ]


META = [
    ["a", 3, 0, 2, None, False],
    ["b", 2, 0, 1, None, False],
    ["gone", None, 0, 4, None, True],
    ["c", 4, 1, 0, None, False],
    ["é", 5, 1, 1, None, False],
]
SPARKS_WORDS = [
    ["insert", "a", 1, 0],
    ["insert", "b", 2, 0],
    ["update_preimage", "a", 1, 0],
    ["update_postimage", "a", 3, 0],
    ["insert", "gone", 1, 0],
    ["delete", "gone", 1, 0],
    ["insert", "c", 4, 1],
    ["insert", "é", 5, 1],
    ["update_preimage", "a", 3, 0],
    ["update_postimage", "a", 9, 0],
    ["delete", "b", 2, 0],
    ["insert", "new", 7, 1],
]


def feed(changes: dict[int, list[Change]]) -> list[Any]:
    return ordered(
        [
            [
                "delete" if value is None else "update",
                key.decode(),
                None if value is None else int.from_bytes(value, "big", signed=True),
                partition,
            ]
            for partition, written in changes.items()
            for key, value, *_ in written
        ]
    )


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def ordered(rows: Sequence[Any]) -> list[Any]:
    return sorted(rows, key=json.dumps)
