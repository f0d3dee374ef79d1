"""Checked by mypy in test_typing.py, never run: what the DSL's types say, and what they refuse.

``# type: ignore[code]`` marks a line that must be an error; an unused one is an error itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

import attrs
import faust
import msgspec
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import BaseModel

from logstate import serdes
from logstate.contracts.records import Record, Windowed
from logstate.contracts.stores import ValueAndTimestamp, VersionedRecord
from logstate.contracts.typed_stores import KeyValueStore
from logstate.faust import codec, record_of
from logstate.serdes import JsonSerde, SessionWindowedSerde, WindowedSerde
from logstate.testing import TopologyTestDriver
from logstate.testing.input_topic import InputTopic
from logstate.testing.output_topic import OutputTopic
from logstate.topology import (
    Aggregates,
    Count,
    CountWindows,
    JoinWindows,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Processor,
    SessionWindows,
    StreamsBuilder,
    TumblingWindows,
    key_value_store,
    session_store,
    timestamped_key_value_store,
    versioned_store,
    window_store,
)


class Click(msgspec.Struct):
    user: str
    ms: int


def sources(builder: StreamsBuilder) -> None:
    assert_type(builder.stream("clicks", value=Click), KStream[str, Click])
    assert_type(builder.stream("clicks", key=int, value=Click), KStream[int, Click])
    assert_type(builder.table("clicks", value=Click, store="s"), KTable[str, Click])


@dataclass
class Plain:
    user: str


@attrs.define
class Defined:
    user: str


class Model(BaseModel):
    user: str


class Visit(faust.Record):
    user: str


def from_faust(builder: StreamsBuilder) -> None:
    visits = builder.stream("visits", value=record_of(Visit))
    assert_type(visits, KStream[str, Visit])
    assert_type(visits.map_values(lambda visit: visit.user), KStream[str, str])
    visits.filter(lambda visit: visit.user.nothing)  # type: ignore[attr-defined]
    assert_type(builder.stream("counts", value=codec("json", int)), KStream[str, int])


def every_format(builder: StreamsBuilder) -> None:
    assert_type(builder.stream("a", value=Plain), KStream[str, Plain])
    assert_type(builder.stream("b", value=Defined), KStream[str, Defined])
    assert_type(builder.stream("c", value=Model), KStream[str, Model])
    assert_type(builder.stream("d", value=Timestamp), KStream[str, Timestamp])
    framed = serdes.protobuf(Timestamp, registry="mock://r", renamed={"a": "b"})
    assert_type(builder.stream("e", value=framed), KStream[str, Timestamp])
    documents = serdes.json_schema_of(Plain, registry="mock://r")
    assert_type(builder.stream("f", value=documents), KStream[str, Plain])
    models = builder.stream("g", value=Model)
    assert_type(models.map_values(lambda model: Plain(model.user)), KStream[str, Plain])
    models.filter(lambda model: model.nothing)  # type: ignore[attr-defined]


def stateless(clicks: KStream[str, Click]) -> None:
    assert_type(clicks.filter(lambda click: click.ms > 1), KStream[str, Click])
    assert_type(clicks.filter(lambda key, click: key == click.user), KStream[str, Click])
    second = timedelta(seconds=1)
    assert_type(clicks.deduplicate_by_key(second, store="s"), KStream[str, Click])
    assert_type(
        clicks.deduplicate_by_key_value(lambda click: click.ms, second, id=int, store="t"),
        KStream[str, Click],
    )
    clicks.deduplicate_by_key_value(lambda key, click: (key, click.ms), second, id=list, name="t")
    assert_type(clicks.map_values(lambda click: click.ms, value=int), KStream[str, int])
    assert_type(clicks.map(lambda key, click: (click.ms, key)), KStream[int, str])
    assert_type(clicks.select_key(lambda click: click.ms), KStream[int, Click])
    assert_type(clicks.flat_map_values(lambda click: [click.ms]), KStream[str, int])
    clicks.filter(lambda click: click.nothing)  # type: ignore[attr-defined]
    clicks.deduplicate_by_key(second, retention=second)  # type: ignore[call-arg]
    clicks.map(lambda click: click.ms)  # type: ignore[arg-type, return-value]


def groups(clicks: KStream[str, Click]) -> None:
    grouped = clicks.group_by(lambda click: click.ms, key=int)
    assert_type(grouped, KGroupedStream[int, Click])
    assert_type(grouped.count(store="c"), KTable[int, int])
    sums = grouped.aggregate(lambda: 0, lambda total, click: total + click.ms, value=int, store="s")
    assert_type(sums, KTable[int, int])
    grouped.aggregate(
        lambda: 0,
        lambda total, click: total + click.nothing,  # type: ignore[attr-defined]
        value=int,
        store="s",
    )
    windows = TumblingWindows(size=timedelta(hours=1))
    assert_type(grouped.windowed_by(windows).count(store="w"), KTable[Windowed[int], int])
    sessions = grouped.windowed_by(SessionWindows(gap=timedelta(hours=1)))
    assert_type(sessions.count(store="w"), KTable[Windowed[int], int])


def joins(clicks: KStream[str, Click], names: KTable[str, str], ids: KTable[int, str]) -> None:
    assert_type(clicks.join(names, lambda click, name: f"{name}{click.ms}"), KStream[str, str])
    clicks.left_join(names, lambda click, name: name.upper())  # type: ignore[union-attr]
    clicks.join(ids, lambda click, name: name)  # type: ignore[arg-type]
    windows = JoinWindows.symmetric(timedelta(seconds=1))
    assert_type(
        clicks.join(clicks, lambda a, b: a.ms - b.ms, windows=windows, name="j"), KStream[str, int]
    )
    assert_type(
        names.join(ids, lambda a, b: len(a + b), foreign_key=len, store="j", name="j"),
        KTable[str, int],
    )


def joins_by_time(clicks: KStream[str, Click], texts: KStream[str, str]) -> None:
    near = timedelta(seconds=1), timedelta(seconds=5)
    pairs = clicks.interval_join(texts, lambda a, b: a.ms - len(b), within=near, name="j")
    assert_type(pairs, KStream[str, int])
    one = clicks.interval_join(
        texts,
        lambda key, a, b: key + a.user + (b or ""),
        how="left",
        within=near,
        match="first",
        heartbeat=str.isspace,
        value=str,
        name="k",
        late="late",
    )
    assert_type(one, KStream[str, str])
    clicks.interval_join(texts, lambda a, b: len(b), how="left", within=near, name="l")  # type: ignore[call-overload]
    clicks.interval_join(texts, lambda a, b: len(b), within=near, match="any", name="m")  # type: ignore[call-overload]
    clicks.interval_join(texts, lambda a, b: len(b), windows=near, name="n")  # type: ignore[call-overload]


def joins_as_of(
    clicks: KStream[str, Click], texts: KStream[str, str], names: KTable[str, str]
) -> None:
    second = timedelta(seconds=1)
    last = clicks.as_of_join(texts, lambda a, b: a.ms - len(b), tolerance=second, name="j")
    assert_type(last, KStream[str, int])
    valid = clicks.as_of_join(names, lambda key, a, b: key + (b or ""), how="left", value=str)
    assert_type(valid, KStream[str, str])
    clicks.as_of_join(names, lambda a, b: len(b), how="left")  # type: ignore[call-overload]
    clicks.as_of_join(names, lambda a, b: len(b), how="outer")  # type: ignore[call-overload]


def tables(names: KTable[str, str]) -> None:
    assert_type(names.map_values(lambda name: name + name, value=str), KTable[str, str])
    assert_type(names.group_by(lambda key, name: (name, 1)), KGroupedTable[str, int])
    assert_type(names.to_stream(), KStream[str, str])
    assert_type(names.to_stream(lambda key, name: len(name), key=int), KStream[int, str])


def serdes_of_types(builder: StreamsBuilder) -> None:
    clicks = serdes.json_of(Click)
    assert_type(clicks, JsonSerde[Click])
    assert_type(JsonSerde(Plain), JsonSerde[Plain])
    assert_type(serdes.json_of(list[Plain]), JsonSerde[list[Plain]])
    assert_type(serdes.windowed(int, 10), WindowedSerde[int])
    assert_type(serdes.windowed(clicks, 10), WindowedSerde[Click])
    assert_type(serdes.session_windowed(Click), SessionWindowedSerde[Click])
    assert_type(builder.stream("a", value=clicks), KStream[str, Click])
    events = builder.stream("b", value=serdes.avro("{}", registry="mock://r", type=Click))
    assert_type(events, KStream[str, Click])
    events.filter(lambda click: click.nothing)  # type: ignore[attr-defined]


def driven(driver: TopologyTestDriver) -> None:
    assert_type(driver.read("out", value=int), list[tuple[str | None, int | None]])
    assert_type(driver.read("out", key=int, value=Click), list[tuple[int | None, Click | None]])
    assert_type(driver.read("out", value="json"), list[tuple[Any, Any]])
    timed = driver.read_with_timestamps("out", value=Click)
    assert_type(timed, list[tuple[str | None, Click | None, int]])
    written = driver.input_topic("in", key=str, value=Click, start_ms=3)
    assert_type(written, InputTopic[str, Click])
    written.pipe("ada", Click("ada", 3))
    written.pipe("ada", 3)  # type: ignore[arg-type]
    read = driver.output_topic("out", key=str, value=serdes.json_of(Click))
    assert_type(read, OutputTopic[str, Click])
    assert_type(read.read(), Record[str | None, Click | None])


VISITS = key_value_store("visits", key=str, value=int)
LATEST = timestamped_key_value_store("latest", int, Click)
MINUTES = window_store("minutes", str, int, size=timedelta(minutes=1), retention=timedelta(hours=1))
HOURS = window_store(
    "hours", str, int, size=timedelta(hours=1), retention=timedelta(days=1), timestamped=True
)
SESSIONS = session_store("sessions", str, Click, retention=timedelta(hours=1))
PRICES = versioned_store("prices", str, float, history=timedelta(hours=1))


class CountsVisits(Processor[str, Click, str, int]):
    def process(self, record: Record[str, Click]) -> None:
        self.context.forward(record.with_value(record.value.ms))
        self.context.forward(record)  # type: ignore[arg-type]
        self.context.forward(record.with_value("3"))  # type: ignore[arg-type]
        visits = self.context.store(VISITS)
        assert_type(visits, KeyValueStore[str, int])
        assert_type(visits.get("ada"), int | None)
        visits.put("ada", "3")  # type: ignore[arg-type]
        visits.get(3)  # type: ignore[arg-type]
        row = self.context.store(LATEST).get(3)
        assert_type(row, ValueAndTimestamp[Click] | None)
        assert_type(self.context.store(MINUTES).fetch("ada", 0), int | None)
        assert_type(self.context.store(HOURS).fetch("ada", 0), ValueAndTimestamp[int] | None)
        sessions = self.context.store(SESSIONS)
        sessions.put(Windowed("ada", 0, 1), Click("ada", 3))
        sessions.put(Windowed("ada", 0, 1), 3)  # type: ignore[arg-type]
        version = self.context.store(PRICES).get("tea", 30)
        assert_type(version, VersionedRecord[float] | None)
        assert_type(self.context.store("visits"), Any)
        self.context.store(VISITS).fetch("ada", 3)  # type: ignore[attr-defined]


def stores_of_tests(driver: TopologyTestDriver) -> None:
    assert_type(driver.store(VISITS), KeyValueStore[str, int])


class Total(Aggregates[Click]):
    clicks = Count()


def count_windows(builder: StreamsBuilder) -> None:
    clicks = builder.stream("clicks", key=str, value=Click).group_by_key()
    lasts = clicks.windowed_by(CountWindows(3))
    assert_type(lasts.count(store="n"), KStream[str, int])
    assert_type(lasts.reduce(lambda _, click: click, store="last"), KStream[str, Click])
    times = lasts.aggregate(int, lambda total, click: total + click.ms, value=int, store="ms")
    assert_type(times, KStream[str, int])
    assert_type(lasts.agg(Total, store="total"), KStream[str, Total])
    stream = builder.stream("clicks", key=str, value=Click)
    assert_type(stream.distinct(lambda click: click.user, id=str, store="d"), KStream[str, Click])
    assert_type(stream.batch(3, within=timedelta(1), store="b"), KStream[str, list[Click]])
    lasts.count(store="n", emit="close")  # type: ignore[call-arg]
