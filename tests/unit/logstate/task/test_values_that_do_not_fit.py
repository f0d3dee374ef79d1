"""A value that could not be read again is refused where it is made; what was written stays good."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from logstate import (
    Application,
    ErrorHandlers,
    ProcessingError,
    Processor,
    Record,
    SerdeError,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    dead_letter,
    serdes,
    skip,
)
from logstate.changelog.rows.row_codec import TIMESTAMPED_ROW, row_codec
from logstate.contracts.stores import StoreSpec
from logstate.testing import FakeCluster, TopologyTestDriver
from logstate.topology import key_value_store
from tests.patience import until


class Stat(msgspec.Struct):
    n: int = 0
    mean: int = 0


class FrozenStat(msgspec.Struct, frozen=True):
    n: int = 0
    mean: int = 0


class Nested(msgspec.Struct, frozen=True):
    n: int = 0
    mean: int = 0
    parts: tuple[int, ...] = ()


@dataclass
class DataStat:
    n: int = 0
    mean: int = 0
    note: str = ""


CLASSES = (Stat, FrozenStat, Nested, DataStat)
BAD = (2.5, None, "2", {"a": 1}, True)


def _add(cls: Any, bad: object) -> Callable[[Any, int], Any]:
    """The second record of a key makes a row that nobody could read."""

    def add(row: Any, value: int) -> Any:
        n = row.n + 1
        return cls(n, bad if value < 0 else n)

    return add


def _counted(cls: Any, bad: object, windows: object = None, emit: Any = "update") -> Topology:
    builder = StreamsBuilder()
    grouped: Any = builder.stream("in", key=str, value=int).group_by_key()
    add: dict[str, Any] = {"aggregator": _add(cls, bad)}
    if windows is not None:
        grouped = grouped.windowed_by(windows)
    if isinstance(windows, SessionWindows):
        add["merger"] = lambda _, found: found
    grouped.aggregate(cls, **add, store="stats", value=cls, emit=emit)
    return builder.build()


MS = timedelta(milliseconds=1)
WINDOWS = (
    None,
    TumblingWindows(size=10 * MS, grace=0 * MS),
    SlidingWindows(difference=10 * MS, grace=0 * MS),
    SessionWindows(gap=10 * MS, grace=0 * MS),
)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("cls", CLASSES)
def test_the_record_that_made_it_fails_with_the_function_and_the_row_before_stays(
    cls: type, bad: object
) -> None:
    with TopologyTestDriver(_counted(cls, bad)) as driver:
        driver.pipe("in", "k", 1)
        with pytest.raises(ProcessingError, match=r"could not be read again.*\$\.mean") as caught:
            driver.pipe("in", "k", -1)
        assert caught.value.function is not None
        assert "test_values_that_do_not_fit.py:" in caught.value.function
        assert caught.value.offset == 1
        assert driver.store("stats").get("k").value == cls(1, 1)  # type: ignore[call-arg]


@pytest.mark.parametrize("emit", ["update", "commit"])
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("cls", CLASSES)
def test_windows_and_sessions_pass_over_it_and_go_on(cls: type, windows: object, emit: str) -> None:
    handlers = ErrorHandlers(processing=skip)
    topology = _counted(cls, 2.5, windows, emit)
    with TopologyTestDriver(topology, error_handlers=handlers) as driver:
        for i, value in enumerate((1, -1, 1)):
            driver.pipe("in", "k", value, timestamp=i)
        rows = [getattr(row, "value", row) for _, row in driver.store("stats").all()]
        assert rows
        assert max(row.n for row in rows) == 2


class _Putting(Processor[str, int, str, int]):
    def init(self, context: Any) -> None:
        self.store = context.store("rows")

    def process(self, record: Record[str, int]) -> None:
        self.store.put(record.key, Stat(1, "x" if record.value < 0 else 2))  # type: ignore[arg-type]


def test_a_put_of_a_processor_fails_on_its_line() -> None:
    builder = StreamsBuilder()
    builder.add_store(key_value_store("rows", key=str, value=Stat))
    builder.stream("in", key=str, value=int).process(_Putting, stores=["rows"])
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "k", 1)
        with pytest.raises(ProcessingError, match=r"got `str` - at `\$\.mean`") as caught:
            driver.pipe("in", "k", -1)
        assert caught.value.function is not None
        assert caught.value.function.endswith("in process")
        assert driver.store("rows").get("k") == Stat(1, 2)


def test_a_mapped_table_fails_with_its_mapper() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=int, store="given")
    table.map_values(lambda v: Stat(v, v / 2), value=Stat, store="halves")  # type: ignore[arg-type]
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(ProcessingError, match=r"test_values_that_do_not_fit\.py"),
    ):
        driver.pipe("in", "k", 3)


def test_an_application_sends_the_record_to_its_dead_letters_and_reads_the_row_again(
    tmp_path: Path,
) -> None:
    cluster = FakeCluster({"in": 1, "failed": 1})
    encode = serdes.int64.serializer("in", False)
    for value in (1, -1, 1):
        cluster.produce("in", b"k", encode(value), timestamp=1)
    with Application(
        _counted(Stat, 2.5),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=10),
        cluster=cluster,
        error_handlers=ErrorHandlers(processing=dead_letter, dead_letter_topic="failed"),
    ) as application:
        cluster.wait_for_records("failed", 1)
        assert [letter.value() for letter in cluster.records("failed")] == [encode(-1)]
        stats = application.store("stats")
        until(lambda: getattr(stats.get("k"), "value", None) == Stat(2, 2))


def test_a_row_that_is_unreadable_already_says_whose_it_is_and_what_to_do() -> None:
    spec = StoreSpec("stats", "timestamped_key_value", serdes.string, serdes.json_of(Stat))
    codec = row_codec(spec, "changelog", TIMESTAMPED_ROW)
    with pytest.raises(SerdeError, match=r"row of store 'stats' cannot be read.*upgradable\(\)"):
        codec.decode_row(bytes(8) + b'{"n":1,"mean":2.5}')
