"""Which store goes on with which table of Faust, and which topics have to be read before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import faust
import pytest

from logstate.contracts.clients import Committed, TopicDescription
from logstate.contracts.errors import UpgradeError
from logstate.contracts.records import TopicPartition
from logstate.faust import adoption
from logstate.faust.table_rows import tables_of
from logstate.kafka.log_reader import LogBounds
from logstate.testing import FakeCluster
from logstate.topics.bound_plan import BoundPlan, bind
from logstate.topology import StreamsBuilder

APP = faust.App("shop", broker="kafka://nowhere", store="memory://", autodiscover=False)
FIRST, SECOND = (APP.Table(name, default=int, partitions=1) for name in ("first", "second"))
ORDERS, REGROUPED = TopicPartition("orders", 0), TopicPartition("orders-by-repartition", 0)


def counted_by_value() -> BoundPlan:
    builder = StreamsBuilder()
    stream = builder.stream("orders", key=str, value=str)
    stream.group_by(lambda value: value, key=str, name="by-value").count(store="counts")
    return bind(builder.build(), "shop", {"orders": TopicDescription("", 1)})


def test_two_tables_do_not_go_into_one_store() -> None:
    logs = {one.changelog: TopicDescription("", 1) for one in tables_of(APP).values()}
    known = tables_of(APP)

    with pytest.raises(UpgradeError, match="tables 'first', 'second' would go into one store"):
        adoption._pairs(
            known, counted_by_value(), {"first": "counts", "second": "counts"}, (), logs
        )
    pairs = adoption._pairs(known, counted_by_value(), {"first": "counts"}, ("second",), logs)
    assert [(pair.table.name, pair.store) for pair in pairs] == [("first", "counts")]


@pytest.mark.parametrize(
    ("forget", "convert", "message"),
    [
        (
            ["second"],
            {"frist": int},
            r"convert= has a function for 'frist', which is not a table of",
        ),
        (["first", "second"], {}, r"table 'first' is in tables= and in forget=: leave it out"),
        ("first, second", {}, r"forget='first, second' is a text: name the tables in a list"),
    ],
)
def test_what_is_named_has_to_be_there_and_to_mean_one_thing(
    forget: Any, convert: Any, message: str
) -> None:
    known = tables_of(APP)
    logs = {one.changelog: TopicDescription("", 1) for one in known.values()}
    with pytest.raises(UpgradeError, match=message):
        adoption._pairs(known, counted_by_value(), {"first": "counts"}, forget, logs, convert)


def test_only_inputs_of_others_need_offsets() -> None:
    assert adoption._inputs_of_others(counted_by_value()) == [ORDERS]


@pytest.mark.parametrize(("committed", "is_refused"), [(3, True), (4, False)])
def test_records_of_faust_that_wait_behind_its_group_by_are_not_left_behind(
    committed: int, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has four records, and the end of a transaction behind them."""

    def offsets(_: Any, __: str, wanted: Iterable[TopicPartition]) -> dict[Any, Committed]:
        return {tp: Committed(committed, "") for tp in wanted if tp == REGROUPED}

    def read(_: Any, __: TopicPartition, *, start: int, **___: Any) -> Iterator[list[int]]:
        yield from ([offset] for offset in range(start, 4))

    monkeypatch.setattr(adoption, "committed_offsets", offsets)
    monkeypatch.setattr(adoption, "log_bounds", lambda _, tps: dict.fromkeys(tps, END))
    monkeypatch.setattr(adoption, "read_partition", read)
    cluster = FakeCluster({"orders": 1, REGROUPED.topic: 1, "of-others-repartition": 1})

    def check() -> None:
        adoption._check_regrouped_were_read({}, cluster.admin(), counted_by_value())

    if is_refused:
        with pytest.raises(UpgradeError, match="wait unread in orders-by-repartition-0"):
            check()
    else:
        check()


END = LogBounds(0, 5, 5)
