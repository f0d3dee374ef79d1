"""What the tests of declarations go on from."""

from __future__ import annotations

from typing import Any

from logstate.topology import KGroupedStream, KStream, KTable, StreamsBuilder


def stream(builder: StreamsBuilder | None = None) -> KStream[str, int]:
    return (builder or StreamsBuilder()).stream("numbers", key=str, value=int, name="numbers")


def table() -> KTable[str, int]:
    return StreamsBuilder().table("rows", key=str, value=int, store="rows", name="rows")


def grouped() -> KGroupedStream[str, int]:
    return stream().group_by_key()


def both() -> tuple[KStream[str, int], KTable[str, int], Any]:
    builder = StreamsBuilder()
    rows = builder.table("rows", key=str, value=int, store="rows", name="rows")
    other = builder.stream("others", key=str, value=int, name="others")
    return stream(builder), rows, other
