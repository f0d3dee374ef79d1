"""A source topic that serves as changelog restores what processing stored, and nothing else."""

from __future__ import annotations

import pytest

from logstate.error_handlers import ErrorHandlers, skip
from logstate.testing import TopologyTestDriver
from logstate.topology import StreamsBuilder


@pytest.mark.parametrize("commit_every", [1, 3, 100])
def test_records_that_were_skipped_do_not_come_back(commit_every: int) -> None:
    builder = StreamsBuilder()
    builder.table("prices", key=str, value=int, store="prices").to_stream().to("out")
    topology = builder.build(optimization="all")
    handlers = ErrorHandlers(deserialization=skip)
    with TopologyTestDriver(topology, error_handlers=handlers, commit_every=commit_every) as driver:
        driver.pipe_raw("prices", b"a", (1).to_bytes(8, "big"), 1)
        driver.pipe_raw("prices", None, (2).to_bytes(8, "big"), 2)
        driver.pipe_raw("prices", b"b", b"no number", 3)
        driver.pipe_raw("prices", b"c", (3).to_bytes(8, "big"), 4)
        driver.pipe_raw("prices", b"c", None, 5)
        before = list(driver.store("prices").all())

        driver.crash()

        assert list(driver.store("prices").all()) == before
        assert [key for key, _ in before] == ["a"]
