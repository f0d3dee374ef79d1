"""The stores of a stream-stream join: of both sides together, and of each alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.app.application import Application
from logstate.contracts.errors import TopologyError
from logstate.contracts.stores import StoreSpec
from logstate.testing import TopologyTestDriver
from logstate.topology import JoinWindows, Materialized, StreamsBuilder, Topology
from tests.patience import PATIENCE_S
from tests.unhurried import unhurried

TEN = timedelta(milliseconds=10)
NEAR = JoinWindows.symmetric(TEN, grace=timedelta(milliseconds=5))
KINDS = ("join", "left_join", "outer_join")


def joined(kind: str, *, in_memory_stores: bool = False, **stores: Any) -> Topology:
    builder = StreamsBuilder(in_memory_stores=in_memory_stores)
    left = builder.stream("left", value=str)
    right = builder.stream("right", value=str)
    join = getattr(left, kind)
    pairs = join(right, lambda one, other: f"{one}/{other}", windows=NEAR, name="j", **stores)
    pairs.to("out", value=str)
    return builder.build()


def stores_of(topology: Topology) -> dict[str, tuple[bool, bool]]:
    """Name -> whether it is in memory, and logged."""
    return {name: (spec.in_memory, spec.is_logged) for name, spec in topology.stores.items()}


def test_both_sides_and_what_waits_are_kept_as_the_base_says() -> None:
    base = Materialized("s", in_memory=True, logged=False)
    assert stores_of(joined("outer_join", store=base)) == {
        "s-outer-this-join-store": (True, False),
        "s-outer-other-join-store": (True, False),
        "s-outer-shared-join-store": (True, False),
    }


def test_a_side_may_have_a_store_of_its_own_name_and_place() -> None:
    right = Materialized("r", in_memory=True)
    assert stores_of(joined("join", right_store=right)) == {
        "j-this-join-store": (False, True),
        "r": (True, True),
    }
    left = Materialized("l", in_memory=True, logged=False)
    assert stores_of(joined("join", left_store=left, store="s")) == {
        "l": (True, False),
        "s-other-join-store": (False, True),
    }


@pytest.mark.parametrize(("kind", "side"), [("left_join", "left"), ("outer_join", "outer")])
def test_the_left_store_is_the_base_of_what_waits_unmatched(kind: str, side: str) -> None:
    left, right = Materialized("l", in_memory=True), Materialized("r")
    waiting = f"l-{side}-shared-join-store"
    assert stores_of(joined(kind, left_store=left, right_store=right)) == {
        "l": (True, True),
        "r": (False, True),
        waiting: (True, True),
    }
    in_memory = joined(kind, left_store="l", right_store="r", in_memory_stores=True)
    assert stores_of(in_memory) == dict.fromkeys(("l", "r", waiting), (True, True))


def test_settings_of_the_changelogs_go_to_each_store_that_they_are_meant_for() -> None:
    base = {"segment.bytes": "1048576", "cleanup.policy": "compact,delete"}
    own = {"segment.bytes": "2097152"}
    left = Materialized("l", changelog_config=own, segment_interval=timedelta(minutes=2))
    topology = joined("left_join", store=Materialized("s", changelog_config=base), left_store=left)
    configs = {name: dict(spec.changelog_config) for name, spec in topology.stores.items()}
    assert configs == {
        "l": own,
        "s-outer-other-join-store": base,
        "l-left-shared-join-store": {"segment.bytes": "1048576"},
    }
    assert topology.stores["l"].segment_interval_ms == 120_000


def test_a_self_join_keeps_the_left_store() -> None:
    builder = StreamsBuilder()
    one = builder.stream("in", value=str)
    one.join(one, lambda a, b: a + b, windows=NEAR, name="j", left_store="l").to("out", value=str)
    assert set(builder.build("all").stores) == {"l"}


@pytest.mark.parametrize("option", ["retention", "history", "capacity", "ttl"])
@pytest.mark.parametrize("side", ["store", "left_store", "right_store"])
def test_what_the_windows_decide_is_refused(option: str, side: str) -> None:
    value: Any = 5 if option == "capacity" else timedelta(hours=1)
    store = Materialized("x", **{option: value})
    with pytest.raises(TopologyError, match=f"'x' of join 'j' has {option}=, but its windows"):
        joined("join", **{side: store})


def test_one_store_for_both_sides_is_refused() -> None:
    with pytest.raises(TopologyError, match="left_store= and right_store= of join 'j' have one"):
        joined("join", left_store="x", right_store="x")


def choices() -> Iterator[dict[str, Any]]:
    """Every way in which the stores may lie."""
    for left, right in product((None, True, False), repeat=2):
        own = {"left_store": left, "right_store": right}
        yield {
            side: Materialized(side, in_memory=in_memory)
            for side, in_memory in own.items()
            if in_memory is not None
        }


RECORDS = st.lists(
    st.tuples(
        st.sampled_from(("left", "right")),
        st.sampled_from("ab"),
        st.sampled_from((0, 0, 3, 9, 12, 30)),
    ),
    max_size=20,
)


def results(topology: Topology, records: list[Any], crashes: frozenset[int]) -> Any:
    time = 0
    with TopologyTestDriver(topology) as driver:
        for place, (topic, key, later) in enumerate(records):
            time += later
            driver.pipe(topic, key, str(place), timestamp=time)
            if place in crashes:
                driver.crash(loses_disk=place % 2 == 0)
        return driver.read_with_timestamps("out", value=str)


@pytest.mark.parametrize("kind", KINDS)
@given(
    stores=st.sampled_from(list(choices())),
    records=RECORDS,
    crashes=st.frozensets(st.integers(0, 19), max_size=2),
)
def test_where_its_records_are_kept_changes_no_result_of_a_join(
    kind: str, stores: dict[str, Any], records: list[Any], crashes: frozenset[int]
) -> None:
    expected = results(joined(kind), records, frozenset())
    assert results(joined(kind, **stores), records, crashes) == expected


def test_without_a_changelog_a_side_in_memory_begins_empty_after_a_crash() -> None:
    for logged, found in ((True, [("a", "1/2")]), (False, [])):
        left = Materialized("l", in_memory=True, logged=logged)
        with TopologyTestDriver(joined("join", left_store=left)) as driver:
            driver.pipe("left", "a", "1", timestamp=0)
            driver.crash()
            driver.pipe("right", "a", "2", timestamp=1)
            assert driver.read("out", value=str) == found


def test_an_application_goes_on_with_sides_in_memory(tmp_path: Path) -> None:
    cluster = unhurried({"left": 1, "right": 1, "out": 1})
    sides = {side: Materialized(side, in_memory=True) for side in ("left_store", "right_store")}

    def application() -> Application:
        return Application(
            joined("outer_join", **sides),
            application_id="app",
            bootstrap="fake:9092",
            state_dir=tmp_path,
            cluster=cluster,
            outer_join_emit_interval=timedelta(0),
        )

    cluster.produce("left", b"a", b"1", timestamp=100)
    with application():
        cluster.produce("right", b"a", b"2", timestamp=101)
        cluster.wait_for_records("out", 1, PATIENCE_S)
    cluster.produce("right", b"a", b"3", timestamp=102)
    with application():
        cluster.wait_for_records("out", 2, PATIENCE_S)
    assert [record.value() for record in cluster.records("out")] == [b"1/2", b"1/3"]
    assert not list(tmp_path.rglob("*.sst"))


def test_the_windows_of_a_side_are_those_of_the_join() -> None:
    def of(spec: StoreSpec) -> tuple[Any, ...]:
        return spec.window_size_ms, spec.retention_ms, spec.retain_duplicates, spec.logs_headers

    plain = joined("join").stores["j-this-join-store"]
    assert of(joined("join", left_store="l").stores["l"]) == of(plain) == (20, 25, True, True)
