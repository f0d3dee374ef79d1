"""How a deduplication is declared, and what comes of it: names, topics, store, refusals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from logstate.contracts.compatibility import Verdict
from logstate.contracts.errors import TopologyError
from logstate.serdes import int64
from logstate.topics.preview import difference
from logstate.topology import KStream, Materialized, StreamsBuilder, Topology
from tests.unit.topology.operators.streams.test_deduplicate import (
    INTERVAL_MS,
    by_key,
    by_value,
    driver_of,
    ms,
)


def test_a_stream_whose_keys_were_changed_meets_itself_behind_a_topic():
    with driver_of(
        lambda stream: by_key(
            stream.select_key(lambda value: value or None, key=str), store=None, name="once"
        ),
        application_id="app",
    ) as driver:
        driver.pipe_all("in", [("a", "x", 0), ("b", "x", 1), ("c", "", 1), ("d", "", 2)])

        assert list(driver.internal) == ["app-once-repartition"]
        # null keys go through it
        assert driver.read("out", value=str) == [("x", "x"), (None, ""), (None, "")]


def test_the_repartition_topic_is_named_after_the_store_where_there_is_no_name():
    with driver_of(
        lambda stream: by_key(stream.select_key(str, key=str)), application_id="app"
    ) as driver:
        driver.pipe("in", "a", "x")

        assert list(driver.internal) == ["app-seen-repartition"]


def test_what_is_below_needs_no_repartition():
    with driver_of(
        lambda stream: by_key(stream.select_key(str, key=str)).group_by_key().count(store="n")
        .to_stream().map_values(str, value=str),
        application_id="app",
    ) as driver:  # fmt: skip
        driver.pipe("in", "a", "x")

        assert list(driver.internal) == ["app-seen-repartition"]


def test_the_description_shows_the_operator_and_its_store():
    builder = StreamsBuilder()
    by_value(builder.stream("in", key=str, value=str, name="in"), name="once").to("out", name="to")
    topology = builder.build()

    assert "Processor: once (stores: [seen])" in topology.describe()
    spec = topology.stores["seen"]
    assert (spec.kind, spec.window_size_ms, spec.retention_ms) == ("timestamped_window", 10, 30)


def test_rows_tell_what_went_on_and_when():
    with driver_of(by_value) as driver:
        driver.pipe_all("in", [("a", "x", 14), ("a", "y", 25)])

        rows = [
            (w.key, w.start_ms, w.end_ms, row.timestamp) for w, row in driver.store("seen").all()
        ]
    assert sorted(rows) == [(("a", "x"), 10, 20, 14), (("a", "y"), 20, 30, 25)]


def kept_by(declare: Callable[[KStream[Any, Any]], Any]) -> Topology:
    builder = StreamsBuilder()
    declare(builder.stream("in", key=str, value=str))
    return builder.build()


@pytest.mark.parametrize(
    ("declare", "part", "verdict"),
    [
        (by_value, "key", Verdict.REFUSED),
        (
            lambda s: s.deduplicate_by_key(ms(2 * INTERVAL_MS), store="seen"),
            "window_size_ms",
            Verdict.REFUSED,
        ),
        (
            partial(by_key, store=Materialized("seen", retention=ms(50))),
            "retention_ms",
            Verdict.COMPATIBLE,
        ),
    ],
)
def test_rows_of_another_interval_or_of_ids_are_not_taken_for_its_own(
    declare: Callable[[KStream[Any, Any]], Any], part: str, verdict: Verdict
):
    changes = {one.part: one.verdict for one in difference(kept_by(by_key), kept_by(declare))}

    assert changes[part] is verdict
    assert max(changes.values()) is verdict


@pytest.mark.parametrize(
    ("declare", "told"),
    [
        (lambda s: s.deduplicate_by_key(ms(0), store="s"), "at least 1 ms, found 0 ms"),
        (lambda s: s.deduplicate_by_key(5, store="s"), "must be a timedelta, found 5"),
        (lambda s: s.deduplicate_by_key(ms(1)), 'Give store="..." or name="..."'),
        (lambda s: s.deduplicate_by_key(ms(1), store="s", id=str), "has no option id"),
        (
            lambda s: s.deduplicate_by_key_value(lambda v: v, ms(1), store="s"),
            "No serde for the id of deduplication 's'.*Give id=",
        ),
        (
            lambda s: s.deduplicate_by_key_value(lambda: 1, ms(1), id=str, store="s"),
            "id selector .* does not fit",
        ),
        (
            lambda s: s.select_key(str).deduplicate_by_key(ms(1), store="s"),
            "No serde for the key of deduplication 's'.*Give key=",
        ),
        (
            lambda s: by_key(s, store=Materialized("s", retention=ms(29))),
            r"shorter than three intervals of 0:00:00\.010000",
        ),
        (
            lambda s: by_key(s, store=Materialized("s", value=int64)),
            "has value=, but its rows only",
        ),
        (lambda s: by_key(s, store=Materialized("s", history=ms(1))), "has a history"),
        (lambda s: by_key(s, store=Materialized("s", capacity=1)), "has a capacity"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_declared(
    declare: Callable[[KStream[Any, Any]], Any], told: str
):
    with pytest.raises(TopologyError, match=f"(?s){told}") as refused:
        declare(StreamsBuilder().stream("in", key=str, value=str))
    assert "(declared at tests/unit/topology/" in str(refused.value)
