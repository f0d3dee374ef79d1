"""A full buffer of a time limit: early rows, or the end of the application, as it was declared."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from logstate.app.application import Application
from logstate.contracts.errors import ProcessingError
from logstate.task.error_handlers import ErrorHandlers, skip
from logstate.testing import TopologyTestDriver
from logstate.topology import StreamsBuilder, Suppressed, Topology, until_time_limit
from tests.unhurried import unhurried

TEN = timedelta(milliseconds=10)


def held(condition: Suppressed) -> Topology:
    builder = StreamsBuilder()
    prices = builder.table("in", value=int, store="prices")
    prices.suppress(condition, name="held").to_stream().to("out")
    return builder.build()


def strict(**limits: int) -> Topology:
    return held(until_time_limit(TEN, shut_down_when_full=True, **limits))


LIMITS: list[tuple[dict[str, int], str]] = [
    ({"max_records": 2}, "max_records is 2, max_bytes None"),
    ({"max_bytes": 100}, "max_records is None, max_bytes 100"),
    ({"max_records": 9, "max_bytes": 100}, "max_records is 9, max_bytes 100"),
]


@pytest.mark.parametrize(("limits", "said"), LIMITS, ids=str)
def test_a_strict_buffer_that_is_full_ends_the_application_and_names_itself(
    limits: dict[str, int], said: str
) -> None:
    with TopologyTestDriver(strict(**limits)) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("b", 1, 1), ("a", 2, 2)])
        with pytest.raises(ProcessingError) as failure:
            driver.pipe("in", "c", 1, timestamp=3)
        assert driver.read("out", value=int) == []
    for part in ("suppress 'held'", "store 'held-store'", said, "within 10 ms", "shut_down"):
        assert part in str(failure.value)
    assert (failure.value.node, failure.value.offset) == ("held", 3)


def test_what_is_due_leaves_a_strict_buffer_before_it_is_counted() -> None:
    with TopologyTestDriver(strict(max_records=1)) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("b", 1, 10), ("b", None, 12), ("c", 1, 20)])
        assert driver.read("out", value=int) == [("a", 1), ("b", None)]


def test_after_a_crash_a_strict_buffer_is_as_full_as_it_was() -> None:
    with TopologyTestDriver(strict(max_records=1)) as driver:
        driver.pipe("in", "a", 1, timestamp=0)
        driver.crash()
        with pytest.raises(ProcessingError, match="holds 2 records"):
            driver.pipe("in", "b", 1, timestamp=1)


def test_a_handler_may_leave_out_the_record_that_does_not_fit() -> None:
    handlers = ErrorHandlers(processing=skip)
    with TopologyTestDriver(strict(max_records=1), error_handlers=handlers) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("b", 1, 1), ("a", 2, 2), ("c", 1, 10)])
        assert driver.read("out", value=int) == [("a", 2)]
        assert driver.store("prices").get("b") is None


def test_an_application_with_a_strict_buffer_stops_at_the_record_too_many(tmp_path: Path) -> None:
    cluster = unhurried({"in": 1, "out": 1})
    for time, key in enumerate((b"a", b"b")):
        cluster.produce("in", key, (1).to_bytes(8, "big"), timestamp=time + 1)
    application = Application(
        strict(max_records=1),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        cluster=cluster,
    )
    with pytest.raises(ProcessingError, match="suppress 'held', store 'held-store', is full"):
        application.run(handle_signals=False)
    assert list(cluster.records("out")) == []
