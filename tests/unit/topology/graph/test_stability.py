"""What a running application keeps is named by the user, so editing the topology does not lose it.

An unnamed operator without state is inserted at every place of a topology that has every kind of
state. Generated names shift; nothing that is on a broker, on a disk or in a committed cut does.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.records import Record
from logstate.testing.driver import TopologyTestDriver
from logstate.topology import (
    JoinWindows,
    KStream,
    Materialized,
    Processor,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    ValueTransformer,
    key_value_store,
    until_time_limit,
)

SECOND = timedelta(seconds=1)
Edit = Callable[[KStream[Any, Any]], KStream[Any, Any]]


class Reminder(Processor[Any, Any, Any, Any]):
    """Has a store and schedules."""

    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(3 * SECOND, "wall_clock", lambda timestamp: None)
        context.schedule(5 * SECOND, "stream_time", lambda timestamp: None)

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


class Same(ValueTransformer[Any, Any, Any]):
    def init(self, context: Any) -> None:
        context.schedule(7 * SECOND, "stream_time", lambda timestamp: None)

    def transform(self, key: Any, value: Any) -> Any:
        return value


class Places:
    """Applies an edit at the n-th place where a topology offers one."""

    def __init__(self, number: int | None, edit: Edit) -> None:
        self.count = 0
        self._number = number
        self._edit = edit

    def __call__(self, stream: KStream[Any, Any]) -> KStream[Any, Any]:
        here = self.count == self._number
        self.count += 1
        return self._edit(stream) if here else stream


def shop(edit_at: int | None = None, edit: Edit = lambda stream: stream) -> tuple[Topology, int]:
    """A topology with every kind of store, internal topic and clock, and its number of places."""
    here = Places(edit_at, edit)
    builder = StreamsBuilder()
    builder.add_store(key_value_store("seen", str, int))
    orders = here(builder.stream("orders", value=int))
    payments = here(builder.stream("payments", value=int))
    users = builder.table("users", value=str, store="users")
    rates = builder.table(
        "rates", value=int, store=Materialized("rates", history=timedelta(hours=1))
    )
    cities = builder.global_table("cities", value=str, store="cities")
    near = JoinWindows.symmetric(SECOND)
    paid = orders.left_join(payments, lambda a, b: a, windows=near, name="paid")
    paid = here(paid.map_values(lambda value: value, value=int))
    paid = here(paid.process(Reminder, stores="seen", key=str, value=int))
    paid.to("paid", value=int)
    other = here(paid.process_values(Reminder, value=int))
    by_amount = here(other.select_key(str, key=str))
    by_amount.group_by_key(name="amounts").count(store="per-amount").to_stream().to("counts")
    windowed = here(orders).group_by_key()
    windowed.windowed_by(TumblingWindows(size=SECOND)).count(store="tumbling")
    windowed.windowed_by(SlidingWindows(difference=SECOND)).count(store="sliding", emit="close")
    windowed.windowed_by(SessionWindows(gap=SECOND)).count(store="sessions")
    both = windowed.cogroup(lambda a, v: a + v).cogroup(
        here(payments).group_by_key(), lambda a, v: a - v
    )
    both.windowed_by(TumblingWindows(size=SECOND)).aggregate(int, value=int, store="balance")
    located = here(orders).join(cities, lambda a, city: a, key_mapper=lambda key, value: key)
    here(located).join(rates, lambda a, b: a, grace=SECOND, left_value=int, name="rated").to(
        "rated", value=int
    )
    here(orders).deduplicate_by_key(SECOND, store="alarms").to("alarms")
    here(orders).repartition(name="spread", partitions=4).to("spread")
    calm = users.transform_values(Same, value=str, store="same").suppress(
        until_time_limit(SECOND), name="calm"
    )
    calm.group_by(lambda k, v: (v, k), name="per-city", key=str, value=str).count(store="cities-n")
    placed = here(orders).to_table(store="placed")
    placed.join(users, lambda a, b: a, foreign_key=str, store="owners", value=int, name="owner")
    return builder.build(), here.count


class _Through(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


EDITS: dict[str, Edit] = {
    "filter": lambda stream: stream.filter(lambda value: True),
    "map_values": lambda stream: stream.map_values(lambda value: value, value=int),
    "peek": lambda stream: stream.peek(lambda value: None),
    "process_values": lambda stream: stream.process_values(
        _Through,
        value=int,
    ),
    "branch": lambda stream: (
        stream.split().branch(lambda value: True).no_default_branch().popitem()[1]
    ),
    "a side stream": lambda stream: (stream.filter(lambda v: v > 1).to("more", value=int), stream)[
        1
    ],
    "a print": lambda stream: (stream.print(label="x"), stream)[1],
}


def kept(topology: Topology) -> dict[str, Any]:
    """Everything that outlives the process, by the name it is found by."""
    with TopologyTestDriver(topology) as driver:
        driver.pipe("orders", "ada", 1, timestamp=1)
        clocks = sorted(driver.task.freeze().changes.clocks)
    return {
        "stores of each sub-topology": {
            part.id: sorted(store.name for store in part.stores)
            for part in (*topology.sub_topologies, *topology.global_sub_topologies)
        },
        "sources of each sub-topology": {
            part.id: sorted(ref.name for ref in part.source_topics)
            for part in topology.sub_topologies
        },
        "internal topics": [
            (topic.topic.name, topic.kind, topic.partitions) for topic in topology.internal_topics
        ],
        "copartitioned": topology.copartition_groups,
        "store kinds": {name: spec.kind for name, spec in topology.stores.items()},
        "clocks": clocks,
    }


def test_the_topology_under_test_has_every_kind_of_state() -> None:
    topology, places = shop()
    kinds = {spec.kind for spec in topology.stores.values()}
    assert kinds == {
        *("key_value", "timestamped_key_value", "window", "timestamped_window", "session"),
        *("versioned", "outer_join", "suppress_buffer", "join_buffer", "foreign_key_subscription"),
    }
    assert {topic.kind for topic in topology.internal_topics} == {"repartition", "foreign_key"}
    assert places > 10


@pytest.mark.parametrize("edit", EDITS)
def test_inserting_an_unnamed_operator_anywhere_changes_nothing_that_is_kept(edit: str) -> None:
    topology, places = shop()
    before = kept(topology)
    moved = 0
    for place in range(places):
        edited, _ = shop(place, EDITS[edit])
        assert kept(edited) == before, f"after {edit!r} at place {place}"
        moved += edited.describe() != topology.describe()
    assert moved == places, "the edit was made"


def test_no_kept_name_is_a_generated_one() -> None:
    names = repr(kept(shop()[0]))
    assert "KSTREAM-" not in names
    assert "KTABLE-" not in names


def test_the_clock_of_an_unnamed_aggregation_stays_its_own_after_an_edit() -> None:
    """It would be taken for that of another one if it had a generated name."""

    def topology(*, edited: bool) -> Topology:
        builder = StreamsBuilder()
        clicks = builder.stream("clicks", value=str)
        views = builder.stream("views", value=str)
        if edited:
            views = views.filter(lambda value: True)
        minute = TumblingWindows(size=timedelta(minutes=1))
        views.group_by_key().windowed_by(minute).count(store="views")
        clicks.group_by_key().windowed_by(minute).count(store="clicks")
        return builder.build()

    with TopologyTestDriver(topology(edited=False)) as driver:
        driver.pipe("clicks", "ada", "home", timestamp=600_000)
        clocks = driver.task.freeze().changes.clocks
    with TopologyTestDriver(topology(edited=True)) as driver:
        driver.task.set_clocks(clocks, {})
        driver.pipe("views", "ada", "home", timestamp=1)
        assert driver.dropped_total == 0, "no view has come yet, so none is late"
        driver.pipe("clicks", "ada", "home", timestamp=1)
        assert driver.dropped_total == 1, "a click of this time has been late before"


def test_processors_of_one_class_have_schedules_of_their_own() -> None:
    with TopologyTestDriver(shop()[0]) as driver:
        names = sorted(driver.task.punctuations.next_times())
    assert names == ["Reminder#2-1", "Reminder#2-2", "Reminder-1", "Reminder-2", "Same-1"]
