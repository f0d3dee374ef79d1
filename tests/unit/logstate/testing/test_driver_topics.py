"""Input and output topics of the test driver."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import ErrorHandlers, dead_letter
from logstate.contracts.errors import SerdeError
from logstate.contracts.records import Record
from logstate.testing import TopologyTestDriver
from logstate.topology import Materialized, StreamsBuilder


def copying(**settings: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to("out")
    return TopologyTestDriver(builder.build(), **settings)


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def test_records_without_a_time_get_the_topics_own_which_moves_on() -> None:
    with copying() as driver:
        topic = driver.input_topic("in", start_ms=100, advance=ms(10))
        topic.pipe("a", 1)
        topic.pipe("a", 2, timestamp=7)
        topic.pipe_pairs([("b", 3), ("c", None)])
        topic.advance_time(ms(1_000))
        topic.pipe_values([4, 5])
        out = driver.output_topic("out", value=int)
        assert [record[:3] for record in out.read_all()] == [
            ("a", 1, 100),
            ("a", 2, 7),
            ("b", 3, 110),
            ("c", None, 120),
            (None, 4, 1_130),
            (None, 5, 1_140),
        ]


def test_headers_go_in_and_come_out() -> None:
    with copying() as driver:
        driver.input_topic("in").pipe("a", 1, headers=[("h", b"x"), ("n", None)])
        record = driver.output_topic("out", value=int).read()
        assert record == Record("a", 1, 0, [("h", b"x"), ("n", None)])


def test_an_input_topic_may_have_serdes_of_its_own() -> None:
    with copying() as driver:
        driver.input_topic("in", key=bytes, value=bytes).pipe(b"a", bytes(7) + b"\x0c")
        assert driver.output_topic("out", value=int).read_pair() == ("a", 12)


def test_an_unknown_input_topic_is_refused_with_the_known_ones() -> None:
    with copying() as driver:
        with pytest.raises(ValueError, match="reads \\['in'\\]"):
            driver.input_topic("other")
        with pytest.raises(
            ValueError, match=r"topic 'in2' \(was 'in' meant\?\); the topology reads"
        ):
            driver.pipe("in2", "a", 1)


def test_an_output_topic_that_nothing_writes_to_is_refused_with_those_there_are() -> None:
    told = r"nothing writes to topic 'oout' \(was 'out' meant\?\); .* writes to \['out'\]"
    with copying() as driver:
        for read in (driver.read, driver.read_with_timestamps, driver.output_topic):
            with pytest.raises(ValueError, match=told):
                read("oout", value=int)
        assert driver.read("out", value=int) == []


def test_an_internal_topic_is_no_output_and_its_place_is_told() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by(lambda v: v, key=str, name="by")
    grouped.count(store="counts")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", "x")
        for topic, place, records in (
            ("app-by-repartition", r"internal\['app-by-repartition'\]", driver.internal),
            ("app-counts-changelog", r"changelog\('app-counts-changelog'\)", driver.changelogs),
        ):
            with pytest.raises(
                ValueError, match=f"not an output: its records are in driver.{place}"
            ):
                driver.read(topic, value=str)
            assert len(records[topic]) == 1


def test_topics_that_a_function_chooses_and_dead_letters_can_be_read() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to(lambda key, value: f"out-{key}")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", 1)
        assert driver.read("out-a", value=int) == [("a", 1)]
        assert driver.read("out-b", value=int) == []
    with copying(error_handlers=ErrorHandlers(dead_letter, dead_letter_topic="dead")) as driver:
        driver.pipe_raw("in", b"a", b"no number", 0)
        assert driver.read("dead", value=bytes) == [("a", b"no number")]


def test_records_of_other_types_name_their_topic_and_part() -> None:
    with copying() as driver:
        with pytest.raises(
            SerdeError, match=r"the value 'x' \(str\) cannot .* 'in', whose values .*int64"
        ):
            driver.pipe("in", "a", "x")
        with pytest.raises(
            SerdeError, match=r"the key 5 \(int\) .* <serde string>: a str is needed"
        ):
            driver.input_topic("in").pipe(5, 1)
        driver.pipe("in", "a", 1)
        with pytest.raises(
            SerdeError, match=r"the key of a record of output topic 'out' is b'a', .*int64"
        ):
            driver.read("out", key=int, value=int)
        with pytest.raises(
            SerdeError, match=r"the value of .* boolean.* Give value= as the topology"
        ):
            driver.read("out", value=bool)
        assert driver.read("out", value=int) == [("a", 1)]


def test_what_is_piped_together_has_its_parts_and_a_start_is_a_time() -> None:
    with copying() as driver:
        with pytest.raises(
            TypeError, match=r"'in' takes \(key, value, timestamp\) triples, found \('a', 1\)"
        ):
            driver.pipe_all("in", [("a", 1)])  # type: ignore[list-item]
        with pytest.raises(TypeError, match=r"triples, found 'abc' \(str\)"):
            driver.pipe_all("in", ["abc"])  # type: ignore[list-item]
        with pytest.raises(TypeError, match=r"takes \(key, value\) pairs, found 'ab'"):
            driver.input_topic("in").pipe_pairs(["ab"])  # type: ignore[list-item]
        with pytest.raises(
            TypeError, match="starts at the timestamp '5', a str: event time is an int"
        ):
            driver.input_topic("in", start_ms="5")  # type: ignore[arg-type]


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_a_closed_driver_takes_nothing_more_and_still_shows_what_was_written(
    is_on_disk: bool, tmp_path: Path
) -> None:
    driver = copying(state_dir=tmp_path if is_on_disk else None)
    topic = driver.input_topic("in")
    driver.pipe("in", "a", 1)
    driver.close()
    for call in (
        lambda: driver.pipe("in", "a", 2),
        lambda: topic.pipe("a", 2),
        lambda: driver.advance_wall_clock(5),
        driver.crash,
    ):
        with pytest.raises(RuntimeError, match="of a test driver that was closed"):
            call()
    assert driver.read("out", value=int) == [("a", 1)]
    driver.close()


@pytest.mark.parametrize(
    ("start_ms", "advance"), [(-1, ms(0)), (0, ms(-1)), (0, timedelta(microseconds=1))]
)
def test_a_time_that_cannot_be_is_refused(start_ms: int, advance: timedelta) -> None:
    with copying() as driver, pytest.raises(ValueError, match=r"input topic .in. cannot"):
        driver.input_topic("in", start_ms=start_ms, advance=advance)


def test_the_time_of_a_topic_does_not_go_back() -> None:
    with copying() as driver, pytest.raises(ValueError, match="cannot go back"):
        driver.input_topic("in").advance_time(ms(-1))


def test_records_are_read_once_and_in_order() -> None:
    with copying() as driver:
        driver.pipe_all("in", [("a", 1, 0), ("b", 2, 1), ("a", 3, 2), ("c", 4, 3), ("c", None, 4)])
        out = driver.output_topic("out", value=int)
        assert (len(out), out.is_empty) == (5, False)
        assert (out.read_value(), out.read_pair()) == (1, ("b", 2))
        assert driver.read("out", value=int) == [("a", 3), ("c", 4), ("c", None)]
        assert (out.is_empty, out.read_values(), out.read_pairs()) == (True, [], [])


def test_reading_what_is_not_there_says_where_records_are() -> None:
    with copying() as driver:
        topic = driver.output_topic("out", value=int)
        with pytest.raises(LookupError, match=r"'out' has no more .* wait in no topic"):
            topic.read()


def test_a_dict_of_outputs_has_the_last_value_per_key() -> None:
    with copying() as driver:
        driver.pipe_all("in", [("a", 1, 0), ("b", 2, 1), ("a", 3, 2), ("b", None, 3)])
        assert driver.output_topic("out", value=int).read_to_dict() == {"a": 3, "b": None}


def test_a_record_without_key_has_no_place_in_a_dict() -> None:
    with copying() as driver:
        driver.pipe("in", None, 1)
        with pytest.raises(ValueError, match="without a key"):
            driver.output_topic("out", value=int).read_to_dict()


def test_the_topics_that_were_written_are_known_after_they_are_read() -> None:
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=int).group_by(str, name="by", key=str)
    words.count(store="n").to_stream().to("out")
    builder.stream("quiet", value=int).to("never")
    with TopologyTestDriver(builder.build()) as driver:
        assert driver.produced_topics == set()
        driver.pipe("in", "a", 1)
        driver.read("out", value=int)
        assert driver.produced_topics == {"out", "app-by-repartition", "app-n-changelog"}


def test_topics_that_nobody_has_written_to_are_not_among_the_produced_ones() -> None:
    builder = StreamsBuilder()
    builder.table("tab", value=int, store="tab")
    builder.table("reused", value=int, store="reused")
    logged = builder.stream("in", key=str, value=int).group_by_key()
    logged.count(store="n")
    logged.count(store=Materialized("unlogged", logged=False))
    with TopologyTestDriver(builder.build(), commit_every=2) as driver:
        driver.pipe("tab", "a", 1)
        assert driver.produced_topics == set()  # a changelog is written by the commit
        driver.pipe("in", "a", 1)
        assert driver.produced_topics == {"app-tab-changelog", "app-n-changelog"}


def test_a_source_topic_that_is_the_changelog_was_not_written_to() -> None:
    builder = StreamsBuilder()
    builder.table("tab", value=int, store="tab")
    with TopologyTestDriver(builder.build("all")) as driver:
        driver.pipe("tab", "a", 1)
        assert driver.produced_topics == set()


def test_what_a_crash_took_back_was_not_written() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).repartition(name="by").to("out")
    with TopologyTestDriver(builder.build(), commit_every=100) as driver:
        driver.pipe("in", "a", 1)
        assert driver.produced_topics == {"app-by-repartition", "out"}
        driver._recovery.inputs.clear()  # nothing comes again
        driver.crash()
        assert driver.produced_topics == set()


def test_outputs_that_are_committed_may_be_read_before_a_crash() -> None:
    with copying() as driver:
        driver.pipe("in", "a", 1)
        assert driver.read("out", value=int) == [("a", 1)]
        driver.crash()
        driver.pipe("in", "a", 2)
        driver.crash()
        assert driver.read("out", value=int) == [("a", 2)]


@pytest.mark.parametrize("reads_all", [True, False])
def test_outputs_that_a_crash_repeats_may_not_have_been_read(reads_all: bool) -> None:
    with copying(commit_every=2) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("a", 2, 1), ("a", 3, 2)])
        if reads_all:
            driver.take_outputs()
        else:
            driver.read("out", value=int)
        with pytest.raises(ValueError, match="would appear twice"):
            driver.crash()


def test_a_crash_leaves_what_was_committed_and_not_read() -> None:
    with copying(commit_every=2) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("a", 2, 1), ("a", 3, 2)])
        out = driver.output_topic("out", value=int)
        assert out.read_value() == 1
        driver.crash()
        assert out.read_values() == [2, 3]
        assert [record.timestamp for record in driver.outputs] == [0, 1, 2]


def test_a_null_group_key_is_counted_though_not_among_what_kafka_streams_counts() -> None:
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str)
    by_value = words.group_by(lambda value: value or None, key=str, name="by")
    by_value.count(store="counts")
    with TopologyTestDriver(builder.build(), application_id="app") as driver:
        driver.pipe_all("in", [("k", "a", 1), ("k", "", 2), ("k", "", 3)])
        assert [(one.reason, one.count) for one in driver.dropped] == [("null_group_key", 2)]
        assert driver.dropped_total == 0
