from __future__ import annotations

from typing import Any

from logstate.contracts.records import Windowed
from logstate.topology.declaring.windows import HoppingWindows, TumblingWindows, Windows
from tests.unit.topology.operators.aggregates.test_window_aggregate import ms, rows, sums
from tests.unit.topology.operators.one_operator import OneOperator


def closing(windows: Windows, **options: Any) -> OneOperator:
    node = sums(windows, emit="close", retention=100_000, **options)
    return OneOperator(node, wall_clock_ms=1_000)


def test_emit_on_close_forwards_each_window_once_with_its_largest_record_time():
    run = closing(TumblingWindows(size=ms(10), grace=ms(5)))

    assert run.pipe("b", 1, 3) == []
    assert run.pipe("a", 1, 9) == []
    assert run.pipe("a", 1, 14) == []
    assert [(k, new, ts) for k, new, _, ts, _, _ in run.pipe("c", 1, 15)] == [
        (Windowed("a", 0, 10), 1, 9),
        (Windowed("b", 0, 10), 1, 3),
    ]
    assert run.pipe("a", 1, 24) == []


def test_emit_on_close_passes_the_headers_of_the_record_that_closed_the_window():
    run = closing(TumblingWindows(size=ms(10)))
    run.pipe("a", 1, 3, [("h", b"1")])

    assert [edge[4] for edge in run.pipe("a", 1, 10, [("h", b"2")])] == [[("h", b"2")]]


def test_a_jump_of_event_time_closes_all_windows_in_between():
    run = closing(HoppingWindows(size=ms(10), advance=ms(5)))
    for time in (2, 7, 12, 31):
        run.pipe("a", 1, time)

    run.take()

    assert rows(run.pipe("a", 1, 100)) == [(25, 35, 1, 31), (30, 40, 1, 31)]


def test_emission_is_throttled_by_the_wall_clock():
    run = closing(TumblingWindows(size=ms(10)), emit_interval_ms=100)
    run.pipe("a", 1, 1)
    assert run.pipe("a", 1, 11) == []
    run.clock.advance(99)
    assert run.pipe("a", 1, 12) == []
    run.clock.advance(1)

    assert rows(run.pipe("a", 1, 13)) == [(0, 10, 1, 1)]


def test_a_wall_clock_set_back_does_not_silence_emission():
    run = closing(TumblingWindows(size=ms(10)), emit_interval_ms=100)
    run.pipe("a", 1, 1)
    run.clock.jump_wall_clock(0)

    assert rows(run.pipe("a", 1, 11)) == [(0, 10, 1, 1)]


def test_how_far_final_results_were_emitted_survives_a_crash():
    run = closing(TumblingWindows(size=ms(10)))
    run.pipe("a", 1, 1)
    run.pipe("a", 1, 11)
    run.commit()
    run.pipe("a", 1, 21)
    run.discard()  # back to the commit: 21 comes again

    assert rows(run.pipe("a", 1, 21)) == [(10, 20, 1, 11)]
