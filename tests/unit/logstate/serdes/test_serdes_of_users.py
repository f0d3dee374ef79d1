"""What a user's serde returns is checked where it is returned, whatever it is declared for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from logstate import (
    Application,
    ErrorHandlers,
    JoinWindows,
    Materialized,
    ProcessingError,
    Processor,
    ProductionError,
    SerdeError,
    SessionWindows,
    StreamsBuilder,
    TopologyTestDriver,
    TumblingWindows,
    Windowed,
    serdes,
    session_store,
    skip,
    until_time_limit,
    versioned_store,
)
from logstate.testing import FakeCluster
from logstate.topology import KStream

SECOND = timedelta(seconds=1)


class Own(serdes.Serde[str]):
    """Text behind a letter, written as ``written`` makes it of the bytes."""

    def __init__(self, written: Callable[[bytes], Any] = bytes, *, immutable: bool = False) -> None:
        self.written = written
        self.immutable = immutable

    def serializer(self, topic: str, is_key: bool) -> Callable[[str], Any]:
        return lambda text: self.written(b"=" + text.encode())

    def deserializer(self, topic: str, is_key: bool) -> Callable[[bytes], str]:
        return lambda data: data[1:].decode()

    def describe(self) -> dict[str, Any]:
        return {"format": "own", "schema": None}


class WithHeaders(Own):
    def header_serializer(self, topic: str, is_key: bool) -> Callable[[str, Any], Any]:
        return lambda text, headers: self.written(b"=" + text.encode())


def nothing(data: bytes) -> None:
    return None


def joined(one: Any, other: Any) -> str:
    return f"{one}{other}"


def appended(text: str, value: str) -> str:
    return text + value


def _sink(stream: KStream[str, str], serde: Any) -> None:
    stream.map_values(str, value=serde).to("out")


def _repartition(stream: KStream[str, str], serde: Any) -> None:
    stream.map_values(str, value=serde).repartition(name="re").to("out", value=str)


def _table(stream: KStream[str, str], serde: Any) -> None:
    stream.map_values(str, value=serde).to_table(store="t").to_stream().to("out", value=str)


def _aggregate(stream: KStream[str, str], serde: Any, **options: Any) -> None:
    store = Materialized("t", **options)
    counted = stream.group_by_key().aggregate(str, appended, store=store, value=serde)
    counted.to_stream().to("out", value=str)


def _window(stream: KStream[str, str], serde: Any) -> None:
    grouped = stream.group_by_key().windowed_by(TumblingWindows(size=SECOND))
    grouped.aggregate(str, appended, store="t", value=serde).to_stream().to("out", value=str)


def _session(stream: KStream[str, str], serde: Any) -> None:
    grouped = stream.group_by_key().windowed_by(SessionWindows(gap=SECOND))
    table = grouped.aggregate(str, appended, joined, store="t", value=serde)
    table.to_stream().to("out", value=str)


def _suppressed(stream: KStream[str, str], serde: Any) -> None:
    table = stream.to_table(store="t").map_values(str, value=serde)
    table.suppress(until_time_limit(SECOND), name="later").to_stream().to("out", value=str)


def _join(stream: KStream[str, str], serde: Any) -> None:
    windows = JoinWindows(before=SECOND, after=SECOND, grace=SECOND)
    left = stream.map_values(str, value=serde)
    left.outer_join(stream, joined, windows=windows, name="j").to("out", value=str)


class Versions(Processor[str, str, str, str]):
    def process(self, record: Any) -> None:
        self.context.store("t").put(record.key, record.value, record.timestamp)
        self.context.forward(record._replace(value=self.context.store("t").get(record.key).value))


class Sessions(Processor[str, str, str, str]):
    def process(self, record: Any) -> None:
        store = self.context.store("t")
        store.put(Windowed(record.key, record.timestamp, record.timestamp), record.value)
        self.context.forward(record._replace(value=next(store.fetch(record.key))[1]))


def _versions(stream: KStream[str, str], serde: Any) -> None:
    store = versioned_store("t", str, serde, history=SECOND)
    stream.process(Versions, stores=store, key=str, value=str).to("out")


def _sessions(stream: KStream[str, str], serde: Any) -> None:
    store = session_store("t", str, serde, retention=SECOND, in_memory=True)
    stream.process(Sessions, stores=store, key=str, value=str).to("out")


PLACES: dict[str, Callable[[KStream[str, str], Any], None]] = {
    "sink": _sink,
    "repartition": _repartition,
    "table": _table,
    "aggregate": _aggregate,
    "in memory": partial(_aggregate, in_memory=True),
    "least recently used": partial(_aggregate, capacity=2),
    "versioned": partial(_aggregate, history=SECOND),
    "with headers": partial(_aggregate, headers=True),
    "window": _window,
    "session": _session,
    "suppressed": _suppressed,
    "join": _join,
    "versions": _versions,
    "sessions": _sessions,
}


def driven(place: str, serde: Any, **options: Any) -> list[Any]:
    builder = StreamsBuilder()
    PLACES[place](builder.stream("in", value=str), serde)
    driver = TopologyTestDriver(builder.build(), changelog_writes="commit", **options)
    with driver:
        driver.pipe_all("in", [("a", "x", 1), ("b", "y", 2), ("a", "z", 3)])
        driver.crash()
        driver.pipe("in", "a", "w", timestamp=4)
        return [(one.topic, one.value) for one in driver.outputs]


@pytest.mark.parametrize("immutable", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_none_in_the_place_of_bytes_is_the_failure_of_its_record(
    place: str, immutable: bool
) -> None:
    with pytest.raises((ProcessingError, ProductionError)) as raised:
        driven(place, Own(nothing, immutable=immutable))
    assert "of the serde Own for the values of topic" in str(raised.value)
    assert "returned None (NoneType) for a str" in str(raised.value)
    assert raised.value.offset == 0


@pytest.mark.parametrize("immutable", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_a_buffer_that_is_filled_anew_for_each_record_is_copied(
    place: str, immutable: bool
) -> None:
    buffer = bytearray()

    def filled(data: bytes) -> bytearray:
        buffer[:] = data
        return buffer

    expected = driven(place, Own(immutable=immutable))
    assert driven(place, Own(filled, immutable=immutable)) == expected


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (bytes.decode, r'returned .=x. \(str\).*Return text.encode\("utf-8"\)'),
        (len, r"returned 2 \(int\)"),
        (list, r"returned \[61, 120\] \(list\)"),
    ],
)
def test_what_is_no_bytes_is_named_with_the_serializer(written: Any, told: str) -> None:
    with pytest.raises(ProductionError, match=rf"serializer Own.* test_serdes_of_users.*{told}"):
        driven("sink", Own(written))


def test_a_serializer_that_sees_headers_is_checked_too() -> None:
    with pytest.raises(ProductionError, match=r"of the serde WithHeaders .* returned None"):
        driven("sink", WithHeaders(nothing))
    assert driven("sink", WithHeaders(bytearray))[0] == ("out", b"=x")
    assert type(driven("sink", WithHeaders(memoryview))[0][1]) is bytes


def test_a_result_that_is_no_bytes_is_skipped_by_its_handler() -> None:
    def of_odd_length(data: bytes) -> bytes | None:
        return None if data == b"=y" else data

    written = driven("table", Own(of_odd_length), error_handlers=ErrorHandlers(processing=skip))
    assert [value for _, value in written] == [b"x", b"z", b"w"]


def test_keys_of_an_own_serde_and_of_json_are_never_none() -> None:
    for serde in (Own(), serdes.json):
        with pytest.raises(SerdeError, match="None"):
            serde.serializer("t", True)(None)


async def awaited(part: Any) -> Any:
    return part


def yielded(part: Any) -> Iterator[Any]:
    yield part


class Awaiting:
    async def __call__(self, part: Any) -> Any:
        return part


def binding(method: str, given: Any) -> Own:
    """A serde that gives this in the place of a function."""
    return type("Binding", (Own,), {method: lambda serde, topic, is_key: given})()


class AsyncMethod(Own):
    async def serializer(self, topic: str, is_key: bool) -> Any:  # type: ignore[override]
        return str.encode


@pytest.mark.parametrize("place", ["sink", "aggregate", "suppressed", "join", "repartition"])
@pytest.mark.parametrize("given", [awaited, Awaiting(), partial(awaited), yielded, None, "utf-8"])
def test_what_is_no_plain_function_is_refused_at_the_start(place: str, given: Any) -> None:
    with pytest.raises(SerdeError, match=r"serializer\(\) of the serde Binding"):
        driven(place, binding("serializer", given))


@pytest.mark.parametrize("place", ["sink", "repartition"])
@pytest.mark.parametrize("given", [awaited, Awaiting(), partial(awaited), yielded, "utf-8"])
def test_a_serializer_of_headers_that_is_no_plain_function_is_refused(
    place: str, given: Any
) -> None:
    with pytest.raises(SerdeError, match=r"header_serializer\(\) of the serde Binding"):
        driven(place, binding("header_serializer", given))


@pytest.mark.parametrize("method", ["deserializer", "header_deserializer"])
def test_a_deserializer_that_awaits_is_refused_at_the_start(method: str) -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=binding(method, awaited)).filter(bool).to("out", value=str)
    told = rf"{method}\(\) .* awaited at test_serdes_of_users.py:\d+, a coroutine function"
    with pytest.raises(SerdeError, match=told):
        TopologyTestDriver(builder.build())


def test_a_method_that_awaits_is_refused_at_the_start() -> None:
    with pytest.raises(SerdeError, match=r"serializer\(\) .* declared with async def"):
        driven("sink", AsyncMethod())


def test_serdes_around_a_users_serde_check_it_too() -> None:
    for serde in (
        serdes.windowed(Own(nothing), 10),
        serdes.session_windowed(Own(nothing)),
    ):
        with pytest.raises(SerdeError, match="the serde Own for the keys"):
            serde.serializer("t", True)(Windowed("a", 0, 10))
    upgradable = serdes.upgradable(Own(nothing), version=1)
    with pytest.raises(SerdeError, match="the serde Own for the values"):
        upgradable.serializer("t", False)("a")


def test_none_in_the_place_of_bytes_stops_an_application_with_its_record(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    _aggregate(builder.stream("in", value=str), Own(nothing, immutable=True))
    cluster = FakeCluster({"in": 1, "out": 1})
    cluster.produce("in", b"a", b"x", timestamp=1)
    app = Application(
        builder.build(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=20),
        cluster=cluster,
    )
    told = r"offset 0.*of the serde Own for the values of topic 'app-t-changelog' returned None"
    with pytest.raises(ProcessingError, match=told):
        app.run(handle_signals=False)
