"""Times of rows that processors put: what no record can carry is refused where it is given."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from logstate import (
    ErrorHandlers,
    ProcessingError,
    Processor,
    Record,
    StreamsBuilder,
    TopologyTestDriver,
    ValueAndTimestamp,
    skip,
    timestamped_key_value_store,
    window_store,
)
from logstate.contracts.stores import StoreSpec
from logstate.topology.plan.plan import Topology

SECOND = timedelta(seconds=1)


class Spent(msgspec.Struct, frozen=True):
    """Kept as an object until the commit."""

    n: int


def rows_of(value: Any, **options: Any) -> StoreSpec:
    return timestamped_key_value_store("rows", str, value, **options)


def windows_of(value: Any) -> StoreSpec:
    return window_store("rows", str, value, size=SECOND, retention=SECOND, timestamped=True)


PUTS: dict[str, tuple[StoreSpec, Callable[[Any, Any], object]]] = {
    "put": (rows_of(int), lambda store, time: store.put("k", ValueAndTimestamp(1, time))),
    "an object": (rows_of(Spent), lambda s, time: s.put("k", ValueAndTimestamp(Spent(1), time))),
    "put_all": (rows_of(int), lambda s, time: s.put_all([("k", ValueAndTimestamp(1, time))])),
    "put_if_absent": (rows_of(int), lambda s, t: s.put_if_absent("k", ValueAndTimestamp(1, t))),
    "in memory": (
        rows_of(int, in_memory=True, headers=True),
        lambda s, t: s.put("k", ValueAndTimestamp(1, t)),
    ),
    "window": (windows_of(int), lambda s, time: s.put("k", ValueAndTimestamp(1, time), 5)),
    "window of objects": (
        windows_of(Spent),
        lambda s, time: s.put("k", ValueAndTimestamp(Spent(1), time), 5),
    ),
}
WRONG = {"early": -1, "float": 1.5, "none": None, "text": "5", "late": 2**63, "true": True}


def putting(way: str) -> Topology:
    spec, put = PUTS[way]

    class Put(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            put(self.context.store("rows"), WRONG.get(record.value, record.timestamp))

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Put, stores=spec, name="p")
    return builder.build()


@pytest.mark.parametrize("way", PUTS)
def test_a_time_that_no_record_has_is_refused_at_the_put(way: str) -> None:
    for wrong in WRONG:
        driver = TopologyTestDriver(putting(way))
        with pytest.raises(ProcessingError, match=r"node 'p', in .*Store 'rows' was given"):
            driver.pipe("in", "k", wrong, timestamp=7)
        driver.close()


@pytest.mark.parametrize("way", PUTS)
def test_what_is_put_is_there_after_a_restore_and_a_skipped_row_is_not(way: str) -> None:
    handlers = ErrorHandlers(processing=skip)
    with TopologyTestDriver(putting(way), error_handlers=handlers) as driver:
        driver.pipe("in", "k", "early", timestamp=7)
        assert list(driver.store("rows").all()) == []
        driver.pipe("in", "k", "good", timestamp=0)
        before = list(driver.store("rows").all())
        driver.crash(loses_disk=True)
        assert list(driver.store("rows").all()) == before
        assert [row.timestamp for _, row in before] == [0]


@pytest.mark.parametrize("spec", [rows_of(int), rows_of(Spent)])
def test_a_row_is_a_value_with_its_time(spec: StoreSpec) -> None:
    given: list[Any] = [Spent(1) if "Spent" in repr(spec.value) else 1]

    class Put(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            row = (*given, 5) if record.value == "pair" else given[0]
            self.context.store("rows").put(record.key, row)

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Put, stores=spec)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "k", "pair")
        assert list(driver.store("rows").all()) == [("k", ValueAndTimestamp(given[0], 5))]
        with pytest.raises(
            ProcessingError, match=r"given a row without a timestamp: got .*a \w+\."
        ):
            driver.pipe("in", "k", "alone")


def test_headers_of_a_row_are_those_that_a_record_may_have() -> None:
    class Put(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            row: Any = ValueAndTimestamp(1, 5, [("a", "text")])  # type: ignore[list-item]
            self.context.store("rows").put("k", row)

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Put, stores=rows_of(int, headers=True))
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(ProcessingError, match="the header 'a' with the value 'text', a str"):
        driver.pipe("in", "k", "v")
    driver.close()
