"""Mistakes of a deployment over state that is there."""

from __future__ import annotations

import tempfile
from typing import Any

from logstate import Application, Count, StreamsBuilder, Sum, upgradable
from logstate.testing import FakeCluster
from tests.campaigns.upgrades import topologies as t
from tests.mistakes.mistake import mistake


def deployed(before: t.Declare, after: t.Declare, **settings: Any) -> None:
    cluster, path = FakeCluster({t.INPUT: 1, t.OTHER: 1}), tempfile.mkdtemp()
    for declare, options in ((before, {}), (after, settings)):
        with Application(
            t.built(declare),
            application_id="app",
            bootstrap="fake:9092",
            state_dir=path,
            cluster=cluster,
            **options,
        ):
            pass


@mistake("store 'counts'", "window_size_ms", "stored 10000, declared 60000", "Nothing was changed")
def windows_get_another_size() -> None:
    deployed(t.windowed(10), t.windowed(60))


@mistake(
    "store 'counts'",
    "value",
    "stored int64, declared string",
    "logstate reset --application-id app",
)
def a_number_becomes_text() -> None:
    number = t.aggregated(lambda: 0, lambda _, __, n: n + 1, int)
    deployed(number, t.aggregated(lambda: "", lambda _, __, s: s + "1", str))


@mistake("store 'counts'", "kind", "timestamped_key_value", "timestamped_window", "another name")
def a_table_is_opened_as_windows() -> None:
    deployed(t.counted(), t.windowed())


@mistake(
    "store 'counts'", "renamed={'counts': 'totals'}", "forget={'counts'}", "abandoned silently"
)
def a_store_gets_another_name() -> None:
    deployed(t.counted(), t.counted("totals"))


@mistake("value.note", "stored nothing, declared string", "Give the field a default")
def a_field_without_a_default_is_added() -> None:
    deployed(t.totals(t.Total), t.totals(t.WithoutDefault))


@mistake(
    "value.row_count",
    "stored nothing, declared integer",
    "Fields of agg() have none: use a store of another name and forget this one",
)
def agg_of_a_table_loses_its_count() -> None:
    def grouped(**aggregates: Any) -> t.Declare:
        def declare(builder: StreamsBuilder) -> None:
            table = builder.table(t.INPUT, key=str, value=str, store="all")
            groups = table.group_by(lambda k, v: (v, v), name="by", key=str, value=str)
            groups.agg(**aggregates, store="counts")

        return declare

    deployed(grouped(length=Sum(len), n=Count()), grouped(length=Sum(len)))


@mistake("renamed must be {'stored name': 'declared name'}", "got ['counts']")
def a_renaming_is_a_list() -> None:
    deployed(t.counted(), t.counted("totals"), renamed=["counts"])


@mistake("forget must be a set of names", "got 'counts'")
def what_to_forget_is_a_string() -> None:
    deployed(t.counted(), t.counted("totals"), forget="counts")


@mistake("versions [1] do not lead to version 3", "each one is needed")
def a_version_is_left_out() -> None:
    upgradable(t.Tally, version=3, earlier={1: (t.Total, t.counted_up)})


def _latest(message: Any) -> t.Declare:
    def declare(builder: StreamsBuilder) -> None:
        builder.table(t.INPUT, key=str, value=message, store="prices")

    return declare


@mistake("value.amount", "never used", "stored int64 amount = 2")
def a_number_of_protobuf_is_used_again() -> None:
    from tests.unit.logstate.serdes.protobuf_messages import total

    before, after = (
        total((1, "sum", "int64"), (2, name, kind))
        for name, kind in (("amount", "int64"), ("note", "string"))
    )
    deployed(_latest(before), _latest(after))


@mistake("protobuf(..., renamed={'amount': 'price'})", "give it a new number")
def a_field_of_protobuf_gets_another_name() -> None:
    from tests.unit.logstate.serdes.protobuf_messages import total

    deployed(_latest(total((1, "amount", "int64"))), _latest(total((1, "price", "int64"))))


@mistake("was run by Faust", "'counts'", "logstate.faust.adopt()", "docs/faust.md")
def tables_of_faust_are_left_behind() -> None:
    cluster = FakeCluster({t.INPUT: 1, t.OTHER: 1, "app-__assignor-__leader": 1})
    with Application(
        t.built(t.counted()),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tempfile.mkdtemp(),
        cluster=cluster,
    ):
        pass
