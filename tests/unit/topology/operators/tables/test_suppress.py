from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import serdes
from logstate.contracts.errors import ProcessingError
from logstate.contracts.records import Windowed
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp
from logstate.testing import TopologyTestDriver
from logstate.topology import StreamsBuilder, until_time_limit
from logstate.topology.graph.nodes import TableNode, ValueGetter
from logstate.topology.operators.tables.suppress import SuppressNode
from tests.unit.topology.operators.one_operator import OneOperator


class Parent(TableNode):
    """A table whose every row is 99."""

    def getter_store_names(self) -> tuple[str, ...]:
        return ("rows",)

    def value_getter(self, task: Any) -> ValueGetter:
        return ValueGetter(lambda key: ValueAndTimestamp(99, 1))

    def compile(self, task: Any, forward: Any, children: Any) -> Any:
        return forward


def suppress(until: Any, wait: int, **options: Any) -> SuppressNode:
    key = serdes.string if until == "time_limit" else serdes.windowed(str, 10)
    store = StoreSpec("sup-store", "suppress_buffer", key, serdes.int64)
    return SuppressNode(
        "sup", parent=Parent("table", store=None), store=store, until=until, wait_ms=wait, **options
    )


def limited(wait: int, **options: Any) -> OneOperator:
    node = suppress("time_limit", wait, **options)
    node.enable_sending_old_values(force=True)
    return OneOperator(node)


def closing(grace: int, **options: Any) -> OneOperator:
    return OneOperator(suppress("window_closes", grace, **options))


def window(key: str, start: int) -> Windowed[str]:
    return Windowed(key, start, start + 10)


def test_a_key_is_forwarded_when_its_first_update_is_as_old_as_the_limit():
    run = limited(10)

    assert run.update("a", 1, None, 100) == []
    assert run.update("a", 2, 1, 109) == []
    assert run.update("b", 3, None, 110) == [("a", 2, 1, 109, None, True)]
    assert run.update("c", 4, None, 120) == [("b", 3, None, 110, None, True)]


def test_a_limit_of_zero_forwards_every_update_at_once():
    run = limited(0)

    assert run.update("a", 1, None, 100) == [("a", 1, None, 100, None, True)]
    assert run.update("a", 2, 1, 90) == [("a", 2, 1, 90, None, True)]


def test_a_time_limit_passes_tombstones_on():
    run = limited(5)
    run.update("a", None, 1, 100)

    assert run.update("b", 1, None, 105) == [("a", None, 1, 100, None, True)]


def test_a_row_is_forwarded_from_the_place_and_with_the_headers_of_its_own_record():
    run = limited(5)
    run.update("a", 1, None, 100, [("h", b"1")])

    assert run.update("b", 1, None, 105, [("h", b"2")])[0][4] == [("h", b"1")]
    assert run.forwarded_from == [("in", 0, 0)]
    assert run.offset == 1


def test_a_full_buffer_emits_early_and_may_emit_the_newest_row():
    run = limited(1_000, max_records=2)
    run.update("b", 1, None, 100)
    run.update("c", 1, None, 101)

    assert run.update("a", 7, None, 99) == [("a", 7, None, 99, None, True)]
    assert [edge[0] for edge in run.update("d", 1, None, 101)] == ["b"]


#: what is said of a buffer where nothing may wait
NOTHING_WAITS = [{"max_records": 0}, {"max_bytes": 0}, {"max_records": 0, "max_bytes": 0}]


@pytest.mark.parametrize("bound", NOTHING_WAITS, ids=str)
def test_a_buffer_for_nothing_sends_every_update_at_once(bound: dict[str, int]):
    builder = StreamsBuilder()
    table = builder.table("in", value=int, store="in")
    held = table.suppress(until_time_limit(timedelta(seconds=9), **bound), name="held")
    held.to_stream().to("out")
    held.group_by(lambda key, value: ("all", value), name="by", key=str, value=int).count(store="n")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("b", 2, 1), ("a", None, 1), ("a", 3, 0)])
        assert driver.read("out", value=int) == [("a", 1), ("b", 2), ("a", None), ("a", 3)]
        assert [(key, row.value) for key, row in driver.store("n").all()] == [("all", 2)]
        driver.crash()
        driver.pipe("in", "b", None, timestamp=2)
        assert driver.read("out", value=int) == [("b", None)]


def test_bytes_are_bounded_as_well():
    run = limited(1_000, max_bytes=77)
    assert run.update("a", 1, None, 100) == []

    assert [edge[0] for edge in run.update("b", 1, None, 101)] == ["a"]


def test_a_closed_window_is_forwarded_once_and_deleted_ones_never():
    run = closing(5)
    run.update(window("a", 0), 1, None, 3)
    run.update(window("b", 0), 1, None, 4)
    run.update(window("a", 0), 2, None, 9)
    run.update(window("b", 0), None, None, 9)
    assert run.update(window("a", 10), 1, None, 14) == []

    assert run.update(window("a", 10), 2, None, 15) == [(window("a", 0), 2, None, 9, None, True)]
    assert run.store("sup-store").num_records == 1


def test_an_overflow_of_final_results_stops_the_task_and_names_the_operator():
    run = closing(5, max_records=1, when_full="shut_down")
    run.update(window("a", 0), 1, None, 3)

    with pytest.raises(
        ProcessingError, match="'sup-store', is full: it holds 2 records"
    ) as failure:
        run.update(window("b", 0), 1, None, 4)
    assert (failure.value.node, failure.value.offset) == ("sup", 1)


def test_a_join_reads_the_value_from_before_the_key_was_buffered():
    node = suppress("time_limit", 10)
    run = OneOperator(node)
    latest = node.value_getter(run).latest  # type: ignore[arg-type]
    run.update("a", 2, 1, 100)
    run.update("b", 2, None, 100)

    assert latest("a") == ValueAndTimestamp(1, -1)
    assert latest("b") is None
    assert latest("c") == ValueAndTimestamp(99, 1)


def test_while_a_row_is_on_its_way_joins_still_read_the_value_before_it():
    node = suppress("time_limit", 0)
    run = OneOperator(node)
    latest = node.value_getter(run).latest  # type: ignore[arg-type]
    seen = []
    process = node.compile(run, lambda *edge: seen.append(latest(edge[0])), {})  # type: ignore[arg-type]

    process("a", 2, 1, 100, None, True)

    assert seen == [ValueAndTimestamp(1, -1)]
    assert latest("a") == ValueAndTimestamp(99, 1)


def test_stream_time_and_buffer_go_back_together_after_a_crash():
    run = limited(10)
    run.update("a", 1, None, 100)
    run.commit()
    assert len(run.update("b", 1, None, 110)) == 1
    run.discard()

    assert run.update("b", 1, None, 109) == []
    assert [edge[0] for edge in run.update("c", 1, None, 110)] == ["a"]


@given(
    st.integers(0, 10),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40)), max_size=30),
)
def test_a_time_limit_forwards_what_a_plain_list_of_waiting_rows_does(
    wait: int, updates: list[tuple[str, int]]
):
    run = limited(wait)
    waiting: dict[str, tuple[int, int, int]] = {}
    stream_time = -1

    for value, (key, time) in enumerate(updates):
        stream_time = max(stream_time, time)
        waiting[key] = (waiting.get(key, (time,))[0], value, time)
        due = sorted((r[0], k) for k, r in waiting.items() if r[0] + wait <= stream_time)
        expected = [(k, *waiting.pop(k)[1:]) for _, k in due]

        forwarded = run.update(key, value, None, time)

        assert [(edge[0], edge[1], edge[3]) for edge in forwarded] == expected
