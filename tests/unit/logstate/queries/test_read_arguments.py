"""A question that is put wrongly is told what was expected and what was given, whoever is asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from logstate.contracts.errors import SerdeError, StoreAccessError, StoreArgumentError
from logstate.contracts.stores import ARGUMENTS
from logstate.queries.queries import QueryableStore, StoreReads
from logstate.queries.reader import LocalStores
from logstate.testing import TopologyTestDriver
from logstate.topics.placement import places_of
from logstate.topology import Materialized, SessionWindows, StreamsBuilder, TumblingWindows
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, send

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
KEY = r"takes a key of <serde string>: str, found 7 \(int\)"
BYTES_KEY = r"takes a key of <serde string>: str, found b'a' \(bytes\)"
TIME = r"takes an int, ms since the epoch, found datetime\.datetime.*timestamp\(\) \* 1000"
NONE = "takes a key of .* found None .*Keys are never None"

#: store, question, what it is told
QUESTIONS: list[tuple[str, Callable[[Any], Any], str]] = [
    ("counts", lambda store: store.get(7), rf"get\(key=\.\.\.\) {KEY}"),
    ("counts", lambda store: store.get(b"a"), BYTES_KEY),
    ("counts", lambda store: store.get(None), NONE),
    ("counts", lambda store: store.get("a", 5), "has no earlier values, found 5 .*keep versions"),
    ("counts", lambda store: store.range(7, "b"), rf"range\(lower=\.\.\.\) {KEY}"),
    ("counts", lambda store: store.reverse_range("a", 7), rf"reverse_range\(upper=\.\.\.\) {KEY}"),
    ("counts", lambda store: store.prefix_scan(7), rf"prefix_scan\(prefix=\.\.\.\) {KEY}"),
    ("windows", lambda store: store.fetch(7, 0), rf"fetch\(key=\.\.\.\) {KEY}"),
    ("windows", lambda store: store.fetch("a", NOON), rf"fetch\(start_ms=\.\.\.\) {TIME}"),
    ("windows", lambda store: store.fetch("a", 0.5), r"found 0\.5 \(float\)"),
    ("windows", lambda store: store.fetch_range(7, 0, 1), KEY),
    ("windows", lambda store: store.fetch_range("a", 0, NOON), rf"\(to_ms=\.\.\.\) {TIME}"),
    ("windows", lambda store: store.fetch_all(NOON, NOON), rf"\(from_ms=\.\.\.\) {TIME}"),
    ("windows", lambda store: store.fetch_key_range("a", 7, 0, 1), KEY),
    ("sessions", lambda store: store.fetch(7), KEY),
    ("sessions", lambda store: store.fetch_session("a", 0, NOON), rf"\(end_ms=\.\.\.\) {TIME}"),
    ("sessions", lambda store: store.find_sessions(7, 0, 1), KEY),
    ("sessions", lambda store: store.find_sessions_of_key_range(7, None, 0, 1), KEY),
    ("versions", lambda store: store.get(7, 5), KEY),
    ("versions", lambda store: store.get("a", NOON), rf"get\(as_of=\.\.\.\) {TIME}"),
    ("versions", lambda store: store.versions(7), KEY),
    ("versions", lambda store: store.versions("a", None, NOON), rf"\(to_ms=\.\.\.\) {TIME}"),
    ("numbers", lambda store: store.get(True), "key of <serde int64>: int, found True .bool."),
    ("numbers", lambda store: store.get("1"), "key of <serde int64>: int, found '1' .str."),
    ("numbers", lambda store: store.get(2**64), "key of <serde int64>: int"),
    ("everywhere", lambda store: store.get(7), KEY),
]


def declare(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    grouped.count(store="counts")
    grouped.windowed_by(TumblingWindows(size=MINUTE)).count(store="windows")
    grouped.windowed_by(SessionWindows(gap=MINUTE)).count(store="sessions")
    grouped.count(store=Materialized("versions", history=MINUTE))
    sizes = builder.stream("in", key=str, value=str).group_by(len, key=int, name="by-size")
    sizes.count(store="numbers")
    builder.global_table("names", key=str, value=str, store="everywhere")


def asked(question: Callable[[Any], Any], store: Any) -> None:
    found = question(store)
    if hasattr(found, "__next__"):
        list(found)


@pytest.mark.parametrize(("store", "question", "told"), QUESTIONS)
def test_a_wrong_argument_is_named_by_the_driver(
    store: str, question: Callable[[Any], Any], told: str
) -> None:
    builder = StreamsBuilder()
    declare(builder)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", "x")
        with pytest.raises(StoreArgumentError, match=rf"store '{store}': .*{told}"):
            asked(question, driver.store(store))


@pytest.fixture(scope="module")
def rig() -> WorkerRig:
    def declare_local(builder: StreamsBuilder) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        grouped.count(store="counts")
        grouped.windowed_by(TumblingWindows(size=MINUTE)).count(store="windows")
        grouped.windowed_by(SessionWindows(gap=MINUTE)).count(store="sessions")
        grouped.count(store=Materialized("versions", history=MINUTE))

    cluster = cluster_of({"in": 1})
    send(cluster, "a")
    made = WorkerRig(cluster, declare_local).start()
    made.until_running("0_0")
    made.commit()
    return made


def store_of(rig: WorkerRig, name: str) -> QueryableStore:
    places = places_of(rig.worker._starting.topology, "app")
    return LocalStores(places, "app", lambda: rig.observer.tasks, lambda _: 1).named(name)


@pytest.mark.parametrize(
    ("store", "question", "told"),
    [one for one in QUESTIONS if one[0] in ("counts", "windows", "sessions", "versions")],
)
def test_a_wrong_argument_is_named_by_a_query(
    rig: WorkerRig, store: str, question: Callable[[Any], Any], told: str
) -> None:
    with pytest.raises(StoreArgumentError, match=rf"store '{store}': .*{told}"):
        asked(question, store_of(rig, store))


@pytest.mark.parametrize("partition", ["0", 0.0, -1, True, b"0"])
def test_a_partition_is_a_number(rig: WorkerRig, partition: Any) -> None:
    with pytest.raises(
        StoreArgumentError, match="partition= takes an int from 0 on, found"
    ) as told:
        store_of(rig, "counts").get("a", partition=partition)
    assert type(partition).__name__ in str(told.value)


def test_the_error_is_one_of_the_store_and_of_the_serde() -> None:
    assert issubclass(StoreArgumentError, StoreAccessError)
    assert issubclass(StoreArgumentError, SerdeError)


def test_every_read_of_a_store_that_takes_arguments_is_in_the_table() -> None:
    take_none = {"all", "reverse_all", "approximate_num_entries"}
    reads = {name for name in vars(StoreReads) if not name.startswith("_")} - take_none
    assert reads <= set(ARGUMENTS)
