"""Serdes that look at headers: on sources, sinks and repartition topics, and not in stores."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import (
    Application,
    DeserializationError,
    ErrorHandlers,
    ProductionError,
    Serde,
    StreamsBuilder,
    TopologyTestDriver,
    TumblingWindows,
    ValueAndTimestamp,
    skip,
)
from logstate.contracts.serde import HeaderList
from logstate.serdes import string, windowed
from logstate.testing import FakeCluster
from logstate.topology.plan.plan import Topology
from tests import patience

CODEC = "codec"


class Coded(Serde[str]):
    """Text whose encoding a header names; UTF-8 without one, as in stores."""

    immutable = True

    def __init__(self, codec: str = "utf-16") -> None:
        self.codec = codec

    def serializer(self, topic: str, is_key: bool) -> Callable[[str], bytes]:
        return str.encode

    def deserializer(self, topic: str, is_key: bool) -> Callable[[bytes], str]:
        return bytes.decode

    def header_serializer(self, topic: str, is_key: bool) -> Callable[[str, HeaderList], bytes]:
        def write(text: str, headers: HeaderList) -> bytes:
            headers[:] = [pair for pair in headers if pair[0] != CODEC]
            headers.append((CODEC, self.codec.encode()))
            return text.encode(self.codec)

        return write

    def header_deserializer(self, topic: str, is_key: bool) -> Callable[[bytes, HeaderList], str]:
        def read(data: bytes, headers: HeaderList) -> str:
            return data.decode((dict(headers).get(CODEC) or b"utf-8").decode())

        return read

    def describe(self) -> dict[str, Any]:
        return {"format": "coded", "schema": None}


class Tagged(Serde[str]):
    """Keys whose bytes are always the same, and whose length is in a header."""

    immutable = True

    def serializer(self, topic: str, is_key: bool) -> Callable[[str], bytes]:
        return str.encode

    def deserializer(self, topic: str, is_key: bool) -> Callable[[bytes], str]:
        return bytes.decode

    def header_serializer(self, topic: str, is_key: bool) -> Callable[[str, HeaderList], bytes]:
        def write(text: str, headers: HeaderList) -> bytes:
            headers.append(("key-length", str(len(text)).encode()))
            return text.encode()

        return write

    def describe(self) -> dict[str, Any]:
        return {"format": "tagged", "schema": None}


UTF_16 = [(CODEC, b"utf-16")]


def copied(read: Any = None, written: Any = None) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", value=read or Coded()).to("out", value=written or Coded("latin-1"))
    return builder.build()


def test_a_record_is_decoded_and_encoded_by_its_headers() -> None:
    with TopologyTestDriver(copied()) as driver:
        driver.pipe_raw("in", b"a", "ä".encode("utf-16"), 1, [("other", b"1"), *UTF_16])
        driver.pipe_raw("in", b"b", "ö".encode(), 2)
        assert [(one.value, one.headers) for one in driver.outputs] == [
            (b"\xe4", [("other", b"1"), (CODEC, b"latin-1")]),
            (b"\xf6", [(CODEC, b"latin-1")]),
        ]


def test_a_record_is_decoded_and_encoded_by_its_headers_on_a_cluster(tmp_path: Path) -> None:
    cluster = FakeCluster({"in": 1, "out": 1})
    cluster.produce("in", b"a", "ä".encode("utf-16"), timestamp=1, headers=UTF_16)
    cluster.produce("in", b"b", None, timestamp=2, headers=UTF_16)
    with Application(
        copied(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=20),
        cluster=cluster,
    ):
        cluster.wait_for_records("out", 2, patience.PATIENCE_S)
    assert [(one.value(), one.headers()) for one in cluster.records("out")] == [
        (b"\xe4", [(CODEC, b"latin-1")]),
        (None, UTF_16),
    ]


def test_the_driver_writes_and_reads_topics_with_headers() -> None:
    with TopologyTestDriver(copied()) as driver:
        driver.pipe("in", "a", "ä")
        driver.input_topic("in").pipe("b", "ö", headers=[("other", b"1")])
        first, second = driver.output_topic("out", value=Coded()).read_all()
    assert (first.value, first.headers) == ("ä", [(CODEC, b"latin-1")])
    assert (second.value, second.headers) == ("ö", [("other", b"1"), (CODEC, b"latin-1")])


def test_siblings_do_not_see_what_a_serde_writes_into_headers() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    stream.to("coded", value=Coded("latin-1"))
    stream.to("plain", value=str)
    given = [("other", b"1")]
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", "ä", headers=given)
        by_topic = {one.topic: one.headers for one in driver.outputs}
    assert by_topic == {"coded": [("other", b"1"), (CODEC, b"latin-1")], "plain": given}
    assert given == [("other", b"1")]


def test_a_deserializer_that_changes_its_headers_changes_nothing_below() -> None:
    class Greedy(Coded):
        def header_deserializer(
            self, topic: str, is_key: bool
        ) -> Callable[[bytes, HeaderList], str]:
            def read(data: bytes, headers: HeaderList) -> str:
                headers.clear()
                return data.decode()

            return read

    with TopologyTestDriver(copied(read=Greedy(), written=str)) as driver:
        driver.pipe_raw("in", b"a", b"x", 1, [("other", b"1")])
        assert driver.outputs[0].headers == [("other", b"1")]


def test_rows_have_the_plain_form_and_survive_a_crash() -> None:
    builder = StreamsBuilder()
    builder.table("in", value=Coded(), store="rows").to_stream().to("out")
    with TopologyTestDriver(builder.build(), application_id="app") as driver:
        driver.pipe("in", "a", "ä", timestamp=3)
        assert [one.value for one in driver.changelog("app-rows-changelog")] == ["ä".encode()]
        driver.crash(loses_disk=True)
        assert driver.store("rows").get("a") == ValueAndTimestamp("ä", 3)


def test_a_source_topic_that_is_the_changelog_is_restored_by_its_headers() -> None:
    builder = StreamsBuilder()
    builder.table("in", value=Coded(), store="rows").to_stream().to("out")
    with TopologyTestDriver(builder.build("reuse_source_topics")) as driver:
        driver.pipe("in", "a", "ä", timestamp=3)
        driver.pipe_raw("in", b"b", "ö".encode("latin-1"), 4, [(CODEC, b"latin-1")])
        driver.crash(loses_disk=True)
        rows = dict(driver.store("rows").all())
    assert rows == {"a": ValueAndTimestamp("ä", 3), "b": ValueAndTimestamp("ö", 4)}


def test_a_global_table_is_read_by_its_headers() -> None:
    builder = StreamsBuilder()
    builder.global_table("cities", value=Coded(), store="cities")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("cities", "1", "Tromsø")
        assert driver.store("cities").get("1").value == "Tromsø"


def test_a_repartition_topic_is_written_and_read_by_headers() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str).repartition(name="spread", value=Coded())
    stream.to("out", value=str)
    with TopologyTestDriver(builder.build(), application_id="app") as driver:
        driver.pipe("in", "a", "ä")
        (between,) = driver.internal["app-spread-repartition"]
        assert (between.value, between.headers) == ("ä".encode("utf-16"), UTF_16)
        assert driver.read("out", value=str) == [("a", "ä")]


def test_both_values_of_a_tables_change_are_written_and_read_by_headers() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", value=str, store="rows")
    grouped = table.group_by(lambda key, text: (text[0], text), key=str, value=Coded(), name="by")
    grouped.aggregate(
        str,
        lambda _, text, all_: all_ + text,
        lambda _, text, all_: all_.replace(text, "", 1),
        store="texts",
        value=str,
    ).to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("1", "äh", 0), ("1", "är", 1), ("2", "ä", 2), ("1", None, 3)])
        assert dict(driver.read("out", value=str)) == {"ä": "ä"}


def test_a_windowed_key_hands_the_headers_to_its_inner_serde() -> None:
    builder = StreamsBuilder()
    windows = TumblingWindows(size=timedelta(milliseconds=10))
    counts = (
        builder.stream("in", key=str, value=str).group_by_key(key=Tagged()).windowed_by(windows)
    )
    counts.count(store="n").to_stream().to("out", value=int)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "abc", "x", timestamp=25)
        (written,) = driver.outputs
        assert written.headers == [("key-length", b"3")]
        read = driver.read("out", key=windowed(string, 10), value=int)
    assert [(key.key, key.start_ms, count) for key, count in read] == [("abc", 20, 1)]


def test_key_and_value_share_the_headers_key_first() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).to("out", key=Tagged(), value=Coded("latin-1"))
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "abc", "x")
        assert driver.outputs[0].headers == [("key-length", b"3"), (CODEC, b"latin-1")]


def test_every_copy_of_a_placed_record_has_the_headers() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).to(
        lambda key, value: "out",
        value=Coded("latin-1"),
        partitioner=lambda topic, key, value, count: [] if value == "drop" else [0, 1],
    )
    with TopologyTestDriver(builder.build(), topics={"out": 2}) as driver:
        driver.pipe_all("in", [("a", "x", 1), ("a", "drop", 2)])
        assert [(one.partition, one.headers) for one in driver.outputs] == [
            (0, [(CODEC, b"latin-1")]),
            (1, [(CODEC, b"latin-1")]),
        ]
        assert driver.dropped_total == 1


def test_bytes_that_their_header_does_not_fit_are_the_deserialization_handlers_matter() -> None:
    with pytest.raises(DeserializationError), TopologyTestDriver(copied()) as driver:
        driver.pipe_raw("in", b"a", b"x", 1, [(CODEC, b"no such codec")])
    handlers = ErrorHandlers(deserialization=skip)
    with TopologyTestDriver(copied(), error_handlers=handlers) as driver:
        driver.pipe_raw("in", b"a", b"x", 1, [(CODEC, b"no such codec")])
        driver.pipe_raw("in", b"a", b"y", 2)
        assert [one.value for one in driver.outputs] == [b"y"]


class Careless(Coded):
    """Leaves a header that Kafka does not take."""

    def header_serializer(self, topic: str, is_key: bool) -> Callable[[str, HeaderList], bytes]:
        def write(text: str, headers: HeaderList) -> bytes:
            headers.append((CODEC, text))  # type: ignore[arg-type]
            return text.encode()

        return write


def test_a_header_that_is_none_is_the_production_handlers_matter() -> None:
    careless = copied(written=Careless())
    with (
        pytest.raises(ProductionError, match=r"a serde of sink 'KSTREAM-SINK-.*left the header"),
        TopologyTestDriver(careless) as driver,
    ):
        driver.pipe("in", "a", "x")
    with TopologyTestDriver(careless, error_handlers=ErrorHandlers(production=skip)) as driver:
        driver.pipe("in", "a", "x")
        assert driver.outputs == []
