"""A wall clock that was wrong while due times were committed, through the whole task."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from logstate.contracts.records import Record
from logstate.testing import TopologyTestDriver
from logstate.topology import Processor, ProcessorContext, StreamsBuilder, Topology

YEAR_MS = 365 * 86_400_000


def ticking(calls: list[int]) -> Topology:
    class Tick(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext) -> None:
            context.schedule(timedelta(seconds=10), "wall_clock", calls.append)

        def process(self, record: Record[str, str]) -> None:
            pass

    builder = StreamsBuilder()
    builder.stream("in", value=str).process(Tick, name="tick", key=str, value=str)
    return builder.build()


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_schedule_goes_on_when_the_clock_is_put_right(
    crashes: bool, on_disk: bool, tmp_path: Path
) -> None:
    calls: list[int] = []
    state_dir = tmp_path if on_disk else None
    wrong = TopologyTestDriver(
        ticking(calls), wall_clock_start_ms=80 * YEAR_MS, state_dir=state_dir
    )
    with wrong as driver:
        driver.pipe("in", "k", "v")
        driver.advance_wall_clock(timedelta(seconds=20))
        assert len(calls) == 1
        driver.clock.jump_wall_clock(54 * YEAR_MS)
        if crashes:
            driver.crash()
        for _ in range(3):
            driver.advance_wall_clock(timedelta(seconds=10))
    assert calls[1:] == [54 * YEAR_MS + seconds * 1_000 for seconds in (10, 20, 30)]
