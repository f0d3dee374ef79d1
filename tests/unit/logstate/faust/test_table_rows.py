"""What the records of a Faust table's changelog mean, and what they become."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import faust
import pytest

from logstate.contracts.clients import TopicDescription
from logstate.contracts.errors import SerdeError, UpgradeError
from logstate.faust.table_rows import (
    FaustTable,
    TableRow,
    TableRowWriter,
    tables_of,
    window_problem,
)
from logstate.topics.adoption import refuse_tables_left_by_faust
from logstate.topics.bound_plan import bind
from logstate.topology import StreamsBuilder, TumblingWindows
from logstate.topology.plan.plan import Topology

APP = faust.App("shop", broker="kafka://nowhere", store="memory://", autodiscover=False)


class Sum(faust.Record, namespace="tests.faust.Sum"):
    total: int


def table(name: str, **options: Any) -> Any:
    return APP.Table(name, **options)


def topology(size_s: int = 60) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grouped.count(store="totals")
    grouped.windowed_by(TumblingWindows(size=timedelta(seconds=size_s))).count(store="minutes")
    return builder.build()


@pytest.mark.parametrize(
    ("options", "key", "value", "row"),
    [
        ({}, b'"ada"', b"3", TableRow("ada", None, 3)),
        ({"key_type": str, "value_type": int}, b'"ada"', b"3", TableRow("ada", None, 3)),
        ({"key_type": int}, b"7", b"[1]", TableRow(7, None, [1])),
        ({}, b'["a",["b",1]]', b"3", TableRow(("a", ("b", 1)), None, 3)),
        ({"value_type": Decimal}, b'"ada"', b'"1.50"', TableRow("ada", None, Decimal("1.50"))),
        ({"key_type": bytes}, b"\xff", b"3", TableRow(b"\xff", None, 3)),
    ],
)
def test_a_record_is_the_row_that_faust_reads(
    options: dict[str, Any], key: bytes, value: bytes, row: TableRow
) -> None:
    assert FaustTable(table(f"t{len(APP.tables)}", **options)).row(key, value) == row


@pytest.mark.parametrize("payload", [b"null", b"3", b"[1]", b"true"])
def test_what_should_be_text_and_is_none_stays_what_it_is_as_in_faust(payload: bytes) -> None:
    texts = table(f"t{len(APP.tables)}", key_type=str, value_type=str)
    read = APP.serializers.loads_value(str, payload, serializer="json")
    assert FaustTable(texts).row(b'"ada"', payload).value == read
    assert not isinstance(read, str)


def test_none_is_no_value_of_a_store_unless_convert_makes_one_of_it() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=object).to_table(store="any")
    store = builder.build().stores["any"]
    nothing = TableRow("ada", None, None)
    with pytest.raises(SerdeError, match="a row of a store is never None"):
        TableRowWriter(store, "t", None).logged(nothing)
    assert TableRowWriter(store, "t", lambda value: value or 0).logged(nothing) == (b"ada", b"0")
    assert TableRowWriter(store, "t", lambda value: value).logged(nothing) == (b"ada", None)


def test_a_table_that_no_store_can_go_on_with_is_no_matter_where_it_is_forgotten() -> None:
    app = faust.App("other", broker="kafka://nowhere", store="memory://", autodiscover=False)
    app.Table("kept")
    app.SetTable("sets", key_type=str, value_type=str)
    app.Table("slid").using_window(faust.SlidingWindow(before=1, after=1, expires=10))
    with pytest.raises(SerdeError, match="SetTable: its changelog contains additions and removals"):
        tables_of(app, ["slid"])
    with pytest.raises(SerdeError, match="their bounds depend"):
        tables_of(app, ["sets"])
    assert list(tables_of(app, {"sets", "slid"})) == ["kept"]


def test_values_that_are_records_come_back_as_such() -> None:
    rows = FaustTable(table("sums", value_type=Sum))
    assert rows.row(b'"a"', b'{"total":3}').value == Sum(total=3)


def test_windows_begin_where_the_stores_do_and_hopping_ones_too() -> None:
    rows = FaustTable(table("tumbling", key_type=str).tumbling(60.0))
    assert rows.row(b'["ada",[1699999980.0,1700000039.9]]', b"3") == TableRow(
        "ada", 1_699_999_980_000, 3
    )
    assert FaustTable(table("hopping").hopping(60.0, 20.0)).step_ms == 20_000


def test_windows_that_no_store_has_are_refused() -> None:
    with pytest.raises(SerdeError, match="not a multiple of its step"):
        FaustTable(table("uneven").hopping(50.0, 20.0))
    sliding = faust.SlidingWindow(before=1, after=1, expires=10)
    with pytest.raises(SerdeError, match="their bounds depend"):
        FaustTable(table("sliding").using_window(sliding))


def test_tables_and_stores_have_to_be_of_one_kind_and_size() -> None:
    stores = topology().stores
    plain, minutes = FaustTable(table("p")), FaustTable(table("m").tumbling(60.0))
    assert window_problem(plain, stores["totals"]) is None
    assert window_problem(minutes, stores["minutes"]) is None
    assert "has no windows" in str(window_problem(plain, stores["minutes"]))
    assert "has windows" in str(window_problem(minutes, stores["totals"]))
    other = topology(size_s=30).stores["minutes"]
    assert "have 60000 ms" in str(window_problem(minutes, other))


def test_rows_are_written_as_the_store_logs_them() -> None:
    stores = topology().stores
    plain = TableRowWriter(stores["totals"], "t", int)
    assert plain.logged(TableRow("ada", None, 3.0)) == (b"ada", bytes(7) + b"\x03")
    windowed = TableRowWriter(stores["minutes"], "t", None)
    assert windowed.logged(TableRow("ada", 5, 3)) == (
        b"ada" + bytes(7) + b"\x05" + bytes(4),
        bytes(7) + b"\x03",
    )


def test_an_application_that_faust_has_run_does_not_start_with_empty_stores() -> None:
    plan = bind(topology(), "shop", {"in": TopicDescription("", 1)})
    leader = "shop-__assignor-__leader"
    with pytest.raises(UpgradeError, match=r"take.*logstate\.faust\.adopt|Take its tables over"):
        refuse_tables_left_by_faust(plan, [leader])
    refuse_tables_left_by_faust(plan, [])
    refuse_tables_left_by_faust(plan, [leader, "shop-cuts"])
