"""The list. ``docs/upgrades.md`` has a row for each, by its name."""

from __future__ import annotations

from typing import Any

from logstate import Count, Mean, index
from logstate.app.application import Application
from tests.campaigns.upgrades import topologies as t
from tests.campaigns.upgrades.change import Answer, Change, counts_of_a
from tests.campaigns.upgrades.type_changes import TYPES


def counts_in(store: str) -> Answer:
    def answer(app: Application) -> Any:
        row = app.store(store).get("a")
        return None if row is None else row.value

    return answer


def window_of_a(app: Application) -> Any:
    row = app.store("counts").fetch("a", 0)
    return None if row is None else row.value


def session_of_a(app: Application) -> Any:
    return [count for _, count in app.store("counts").fetch("a")]


def best_of_a(app: Application) -> Any:
    row = app.store("best").get("a")
    return None if row is None else row.value


def number_of_a(app: Application) -> Any:
    row = counts_of_a(app)
    return None if row is None else row.n


def row_of_a(app: Application) -> Any:
    row: Any = app.store("rows").get("a")
    return None if row is None else row.value


def rows_of_old_and_new(app: Application) -> Any:
    return (counts_of_a(app), counts_in("late")(app))


STORES = (
    Change("nothing", t.counted(), t.counted(), "same"),
    Change(
        "an operator without state is added, stores have names",
        t.counted(),
        t.filtered_count,
        "same",
    ),
    Change(
        "a store is added",
        t.counted(),
        t.both(t.counted(), t.counted("late", t.OTHER)),
        "compatible",
        answer=rows_of_old_and_new,
        expected=(3, None),
    ),
    Change(
        "a sub-topology is added in front, so that tasks get other numbers",
        t.counted(),
        t.both(t.counted("late", t.OTHER), t.counted()),
        "compatible",
        answer=rows_of_old_and_new,
        expected=(3, None),
    ),
    Change(
        "a store is gone, or has another name",
        t.counted("sums"),
        t.counted(),
        "decision",
        ("store 'sums'", "renamed={'sums': 'counts'}", "forget={'sums'}"),
        decides={"renamed": {"sums": "counts"}},
    ),
    Change(
        "a store is not wanted any more",
        t.two_counts,
        t.counted(),
        "decision",
        ("store 'firsts'", "forget={'firsts'}"),
        decides={"forget": {"firsts"}},
    ),
    Change(
        "a table becomes windowed, or another kind of store",
        t.counted(),
        t.windowed(),
        "refused",
        ("store 'counts'", "kind", "timestamped_key_value", "timestamped_window"),
    ),
    Change(
        "windows become sessions",
        t.windowed(),
        t.sessions(),
        "refused",
        ("kind", "timestamped_window", "session"),
        answer=window_of_a,
    ),
    Change(
        "windows have another size",
        t.windowed(10),
        t.windowed(60),
        "refused",
        ("window_size_ms", "stored 10000, declared 60000"),
        answer=window_of_a,
    ),
    Change(
        "hopping windows have another advance",
        t.hopping(5),
        t.hopping(2),
        "compatible",
        answer=window_of_a,
    ),
    Change(
        "tumbling or hopping windows become sliding ones",
        t.windowed(10),
        t.sliding,
        "refused",
        ("advance_ms", "stored 10000, declared 0"),
        answer=window_of_a,
    ),
    Change(
        "sessions have another gap",
        t.sessions(10),
        t.sessions(60),
        "compatible",
        answer=session_of_a,
        expected=[3],
    ),
    Change(
        "a TTL is switched on or off",
        t.counted(),
        t.counted(ttl=t.DAY),
        "compatible",
    ),
    Change(
        "a TTL is switched on or off",
        t.counted(ttl=t.DAY),
        t.counted(),
        "compatible",
    ),
    Change(
        "a TTL is longer or shorter",
        t.counted(ttl=2 * t.DAY),
        t.counted(ttl=t.DAY),
        "compatible",
    ),
    Change(
        "a TTL counts by the other clock",
        t.remembered(ttl_by="stream_time"),
        t.remembered(ttl_by="wall_clock"),
        "compatible",
        answer=lambda app: app.store("counts").get("a"),
    ),
    Change(
        "a TTL counts by the other clock",
        t.remembered(ttl_by="wall_clock"),
        t.remembered(ttl_by="stream_time"),
        "compatible",
        answer=lambda app: app.store("counts").get("a"),
    ),
    Change(
        "an index is added",
        t.counted(),
        t.counted(indexes={"count": index(lambda count: count, int)}),
        "compatible",
    ),
    Change(
        "an index is removed",
        t.counted(indexes={"count": index(lambda count: count, int)}),
        t.counted(),
        "compatible",
    ),
    Change(
        "a retention is longer",
        t.windowed(retention_s=60),
        t.windowed(retention_s=3_600),
        "compatible",
        answer=window_of_a,
    ),
    Change(
        "a retention is shorter",
        t.windowed(retention_s=3_600),
        t.windowed(retention_s=60),
        "compatible",
        answer=window_of_a,
    ),
    Change(
        "the history of a versioned table is longer",
        t.versioned(60),
        t.versioned(3_600),
        "compatible",
        answer=row_of_a,
        expected="more",
    ),
    Change(
        "a table becomes versioned",
        t.plain_table,
        t.versioned(60),
        "refused",
        ("kind", "timestamped_key_value", "versioned"),
        answer=row_of_a,
        expected="more",
    ),
    Change(
        "the changelog of a store is switched off, or on",
        t.counted(),
        t.counted(logged=False),
        "refused",
        ("is_logged", "stored True, declared False"),
    ),
    Change(
        "a store with a changelog moves into memory",
        t.counted(),
        t.counted(in_memory=True),
        "compatible",
    ),
    Change(
        "a store with a changelog moves onto the disk",
        t.counted(in_memory=True),
        t.counted(),
        "compatible",
    ),
    Change(
        "a store without a changelog moves between memory and disk",
        t.counted(logged=False),
        t.counted(logged=False, in_memory=True),
        "refused",
        ("in_memory", "Without a changelog"),
    ),
    Change(
        "a buffer waits longer",
        t.suppressed(10),
        t.suppressed(60),
        "same",
    ),
    Change(
        "windows get close_on_idle, or lose it",
        t.windowed(),
        t.windowed(idle=t.DAY),
        "same",
        answer=window_of_a,
    ),
    Change(
        "windows get close_on_idle, or lose it",
        t.windowed(idle=t.DAY),
        t.windowed(),
        "same",
        answer=window_of_a,
    ),
    Change(
        "top_n keeps another number",
        t.ranked(1),
        t.ranked(2),
        "same",
        answer=best_of_a,
        expected=["two", "more"],
    ),
    Change(
        "agg gets another aggregate",
        t.aggregates(n=Count()),
        t.aggregates(n=Count(), mean=Mean(len)),
        "refused",
        ("value.mean_count", "Fields of agg() have none: use a store of another name"),
        answer=number_of_a,
    ),
    Change(
        "agg loses an aggregate",
        t.aggregates(n=Count(), mean=Mean(len)),
        t.aggregates(n=Count()),
        "compatible",
        answer=number_of_a,
    ),
    Change(
        "sort_by_time gets another grace",
        t.sorted_by_time(60),
        t.sorted_by_time(1),
        "same",
        expected=2,  # the last record waits
    ),
    Change(
        "throttle gets another limit",
        t.throttled(2),
        t.throttled(9),
        "same",
    ),
    Change(
        "a source topic becomes the changelog of its table (optimization)",
        t.plain_table,
        t.plain_table,
        "refused",
        ("changelog_topic", "rows-changelog"),
        answer=row_of_a,
        expected="more",
        build={"optimization": "all"},
    ),
)
TOPICS = (
    Change(
        "a repartition topic has another name",
        t.repartitioned("by-value"),
        t.repartitioned("by-word"),
        "refused",
        ("source_topics", "by-value-repartition", "by-word-repartition"),
        answer=counts_in("counts"),
        expected=3,
    ),
    Change(
        "a repartition topic and its store are not wanted any more",
        t.both(t.counted(), t.by_value("words", "by-value")),
        t.counted(),
        "decision",
        ("by-value-repartition", "store 'words'"),
        decides={"forget": {"words", "{application}-by-value-repartition"}},
    ),
    Change(
        "a repartition topic carries another type",
        t.by_value("counts", "by-value"),
        t.by_value("counts", "by-value", of_length=True),
        "refused",
        ("topic", "by-value-repartition", "value", "stored string, declared int64"),
    ),
    Change(
        "a store counts another input topic",
        t.counted(),
        t.counted(topic=t.OTHER),
        "refused",
        ("source_topics", "other"),
    ),
    Change(
        "two stores of one task exchange the topics that they count",
        t.counted_beside(t.INPUT, t.OTHER),
        t.counted_beside(t.OTHER, t.INPUT),
        "refused",
        ("'counts': fed_by", "in'], declared ["),
    ),
    Change(
        "the sides of a stream-stream join are exchanged",
        t.joined(t.INPUT, t.OTHER),
        t.joined(t.OTHER, t.INPUT),
        "refused",
        ("'pairs-this-join-store': fed_by", "in'], declared ["),
    ),
    Change(
        "the groups of a cogroup are declared in another order",
        t.cogrouped(t.INPUT, t.OTHER),
        t.cogrouped(t.OTHER, t.INPUT),
        "refused",
        ("'counts': fed_by", "other']], declared [[", "in their old order"),
        answer=window_of_a,
    ),
)
CHANGES = (*STORES, *TYPES, *TOPICS)
