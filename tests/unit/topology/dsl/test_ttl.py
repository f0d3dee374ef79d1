"""Tables and aggregates whose rows expire."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate import Materialized, Processor, StreamsBuilder, Topology, TopologyTestDriver
from logstate.contracts.drops import DropReason
from logstate.contracts.errors import TopologyError
from logstate.contracts.records import Record
from logstate.contracts.stores import ValueAndTimestamp
from logstate.topology import (
    TumblingWindows,
    counter_store,
    key_value_store,
    map_store,
    session_store,
    set_store,
    timestamped_key_value_store,
    window_store,
)

TTL = timedelta(milliseconds=10)
#: key, value, time: "b" is late for its own row, and later for any
INPUTS = (("a", 1, 100), ("b", 2, 104), ("a", 3, 105), ("c", 4, 114), ("b", 5, 104), ("a", 6, 115))


def table(builder: StreamsBuilder) -> Any:
    return builder.table("in", value=int, store=Materialized("rows", ttl=TTL))


def counts(builder: StreamsBuilder) -> Any:
    groups = builder.stream("in", value=int).group_by_key()
    return groups.count(store=Materialized("rows", ttl=TTL))


def sums_per_commit(builder: StreamsBuilder) -> Any:
    groups = builder.stream("in", value=int).group_by_key()
    return groups.reduce(
        lambda old, new: old + new, emit="commit", store=Materialized("rows", ttl=TTL)
    )


def derived(builder: StreamsBuilder) -> Any:
    parent = builder.table("in", value=int, store="parents")
    return parent.map_values(lambda value: -value, value=int, store=Materialized("rows", ttl=TTL))


def topology_of(build: Callable[[StreamsBuilder], Any], optimization: str = "none") -> Topology:
    builder = StreamsBuilder()
    build(builder).to_stream().to("out", value=int)
    return builder.build(optimization)


@pytest.mark.parametrize("loses_disk", [False, True])
@pytest.mark.parametrize("crash_at", [None, *range(len(INPUTS))])
@pytest.mark.parametrize(
    ("build", "forwarded", "kept"),
    [
        (table, [1, 2, 3, 4, 6], {"a": 6, "c": 4}),
        (counts, [1, 1, 2, 1, 1], {"a": 1, "c": 1}),
        (sums_per_commit, [1, 2, 4, 4, 6], {"a": 6, "c": 4}),
        (derived, [-1, -2, -3, -4, -6], {"a": -6, "c": -4}),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_rows_expire_and_late_records_do_not_bring_them_back(
    build: Any, forwarded: list[int], kept: dict[str, int], crash_at: int | None, loses_disk: bool
) -> None:
    with TopologyTestDriver(topology_of(build)) as driver:
        for place, (key, value, time) in enumerate(INPUTS):
            driver.pipe("in", key, value, timestamp=time)
            if place == crash_at:
                driver.crash(loses_disk=loses_disk)
        assert [value for _, value in driver.read("out", value=int)] == forwarded
        store = driver.store("rows")
        assert {key: row.value for key, row in store.all()} == kept
        assert {key: store.get(key) is None for key in "abc"} == {"a": False, "b": True, "c": False}
        logged: dict[bytes, Any] = {}
        for record in driver.changelog("app-rows-changelog"):
            logged[record.key] = record.value
        assert {key.decode() for key, value in logged.items() if value is not None} == {*kept}
        assert [(one.reason, one.count) for one in driver.dropped] == [(DropReason.EXPIRED, 1)]


def test_a_table_with_a_ttl_has_its_own_changelog() -> None:
    with TopologyTestDriver(topology_of(table, optimization="all")) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("b", 2, 10)])
        logged = [(one.key, one.value is None) for one in driver.changelog("app-rows-changelog")]
    assert logged == [(b"a", False), (b"b", False), (b"a", True)]


def test_a_join_does_not_find_a_row_that_has_expired() -> None:
    builder = StreamsBuilder()
    users = builder.table("users", value=str, store=Materialized("users", ttl=TTL))
    clicks = builder.stream("clicks", value=str)
    clicks.left_join(users, lambda click, user: f"{click} {user}").to("out", value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("users", "a", "Ada", timestamp=100)
        driver.pipe_all("clicks", [("a", "1", 109), ("a", "2", 110)])
        assert [value for _, value in driver.read("out", value=str)] == ["1 Ada", "2 None"]


class Keep(Processor[str, int, str, int]):
    """Adds to a counter, and keeps rows with separate times."""

    def process(self, record: Record[str, int]) -> None:
        total = self.context.store(NUMBERS).add(record.key, record.value)
        row = ValueAndTimestamp(total, record.timestamp + 5)
        self.context.store(TIMED).put(record.key, row)


NUMBERS = counter_store("numbers", str, ttl=TTL)
TIMED = timestamped_key_value_store("timed", str, int, ttl=TTL)


def test_stores_of_processors_expire_by_the_times_of_their_rows() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=int).process(Keep, stores=[NUMBERS, TIMED])
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", 1, 100), ("a", 2, 101), ("b", 5, 111)])
        assert list(driver.store("numbers").all()) == [("b", 5)]
        assert [key for key, _ in driver.store("timed").all()] == ["a", "b"]
        driver.pipe("in", "a", 7, timestamp=101)  # too late: adds nothing
        assert driver.store("numbers").get("a") is None
        assert driver.store("timed").get("a") == ValueAndTimestamp(0, 106)
        driver.pipe("in", "c", 1, timestamp=116)
        assert driver.store("timed").get("a") is None


PRICES = map_store("prices", str, str, int, ttl=TTL)
TAGS = set_store("tags", str, int, ttl=TTL)


class Collect(Processor[str, int, str, int]):
    """Keeps values in a map and in a set."""

    def process(self, record: Record[str, int]) -> None:
        self.context.store(PRICES).put(record.key, str(record.value), record.value)
        if self.context.store(TAGS).add(record.key, record.value):
            self.context.forward(record)


def test_elements_of_maps_and_sets_expire_one_by_one() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=int).process(Collect, stores=[PRICES, TAGS], key=str, value=int).to(
        "new"
    )
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", 1, 100), ("a", 2, 105), ("a", 1, 106), ("a", 3, 115)])
        prices, tags = driver.store("prices"), driver.store("tags")
        assert list(prices.items("a")) == [("1", 1), ("3", 3)]
        assert list(tags.values("a")) == [1, 3]
        assert (prices.size("a"), tags.size("a")) == (2, 2)
        driver.pipe_all("in", [("a", 2, 105), ("a", 2, 106)])  # the first one is too late
        driver.crash(loses_disk=True)
        assert list(driver.store("tags").values("a")) == [1, 2, 3]
        assert [value for _, value in driver.read("new", value=int)] == [1, 2, 3, 2]


def grouped_by_window(builder: StreamsBuilder) -> Any:
    windows = TumblingWindows(size=TTL)
    groups = builder.stream("t", value=str).group_by_key().windowed_by(windows)
    return groups.count(store=Materialized("x", ttl=TTL))


def table_with(**options: Any) -> Callable[[StreamsBuilder], Any]:
    return lambda builder: builder.table("t", value=str, store=Materialized("x", **options))


REFUSED: dict[str, tuple[Callable[[StreamsBuilder], Any], str]] = {
    "nothing": (table_with(ttl=timedelta()), "ttl of store 'x' must be at least 1 ms, found 0 ms"),
    "number": (lambda _: key_value_store("x", str, int, ttl=5), "ttl of store 'x'"),  # type: ignore[arg-type]
    "windows": (grouped_by_window, "a ttl, but its table is windowed.* Use retention="),
    "a window store": (
        lambda _: window_store("x", str, int, size=TTL, retention=TTL, ttl=TTL),  # type: ignore[call-overload]
        "Store 'x' has a ttl.* Use retention=",
    ),
    "a session store": (
        lambda _: session_store("x", str, int, retention=TTL, ttl=TTL),
        "Store 'x' has a ttl.* Use retention=",
    ),
    "versions": (table_with(ttl=TTL, history=TTL), "a ttl and a history"),
    "few": (table_with(ttl=TTL, capacity=1), "a ttl and a capacity"),
    "few elements": (
        lambda _: map_store("x", str, str, int, ttl=TTL, max_size=1),
        "Store 'x' has a ttl and a max_size",
    ),
    "every instance": (
        lambda builder: builder.global_table("t", value=str, store=Materialized("x", ttl=TTL)),
        "Store 'x' cannot have a ttl",
    ),
    "a topic": (
        lambda builder: builder.add_read_only_store(NUMBERS, "t", Keep, value=int),
        "Store 'numbers' cannot have a ttl",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_ttl_that_does_not_fit_its_store_is_refused(case: str) -> None:
    declare, text = REFUSED[case]
    with pytest.raises(TopologyError, match=text):
        declare(StreamsBuilder())


# --- rows that reads renew ------------------------------------------------------------------------

READ = key_value_store("read", str, int, ttl=TTL, renew_on_read=True)


class Look(Processor[str, int, str, int]):
    """Puts a value that is not 0, and forwards what it finds at its key."""

    def process(self, record: Record[str, int]) -> None:
        store = self.context.store(READ)
        if record.value:
            store.put(record.key, record.value)
        found = store.get(record.key)
        self.context.forward(record.with_value(-1 if found is None else found))


@pytest.mark.parametrize("loses_disk", [None, False, True])
def test_a_read_renews_a_row_for_good_and_a_late_read_does_not_shorten_its_life(
    loses_disk: bool | None,
) -> None:
    ttl = int(TTL.total_seconds() * 1_000)
    builder = StreamsBuilder()
    looked = builder.stream("in", value=int).process_values(Look, stores=READ, value=int)
    looked.to("out", value=int)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", 7, timestamp=0)
        driver.pipe("in", "a", 0, timestamp=ttl - 1)
        driver.pipe("in", "a", 0, timestamp=1)  # late
        driver.pipe("in", "b", 8, timestamp=ttl)
        if loses_disk is not None:
            driver.crash(loses_disk=loses_disk)
        assert dict(driver.store("read").all()) == {"a": 7, "b": 8}
        driver.pipe("in", "c", 0, timestamp=2 * ttl - 2)
        assert dict(driver.store("read").all()) == {"a": 7, "b": 8}  # a query renews nothing
        assert driver.store("read").get("a") == 7
        driver.pipe("in", "c", 0, timestamp=2 * ttl - 1)
        assert dict(driver.store("read").all()) == {"b": 8}
        driver.pipe("in", "a", 0, timestamp=2 * ttl - 1)
        assert [value for _, value in driver.read("out", value=int)] == [7, 7, 7, 8, -1, -1, -1]


USED_PRICES = map_store("prices", str, str, int, ttl=TTL, renew_on_read=True)
USED_TAGS = set_store("tags", str, str, ttl=TTL, renew_on_read=True)
USED_NUMBERS = counter_store("numbers", str, ttl=TTL, renew_on_read=True)


class LookAtElements(Processor[str, str, str, int]):
    """For "put" writes one element to each store; else reads it, or all elements of the key."""

    def process(self, record: Record[str, str]) -> None:
        store, key = self.context.store, record.key
        if record.value == "put":
            store(USED_PRICES).put(key, "x", 1)
            store(USED_PRICES).put(key, "y", 2)
            store(USED_TAGS).add(key, "x")
            store(USED_TAGS).add(key, "y")
            store(USED_NUMBERS).add(key)
        elif record.value == "get":
            store(USED_PRICES).get(key, "x")
            store(USED_TAGS).contains(key, "x")
            store(USED_NUMBERS).get(key)
        elif record.value == "scan":
            list(store(USED_PRICES).items(key))
            list(store(USED_TAGS).values(key))
            store(USED_PRICES).size(key)


def elements(driver: TopologyTestDriver) -> tuple[list[str], list[str], int | None]:
    """What the stores have of key "a"."""
    prices, tags = driver.store("prices"), driver.store("tags")
    assert (prices.get("a", "x") is None) is not tags.contains("a", "x")  # renews nothing
    found = [name for name, _ in prices.items("a")]
    return found, list(tags.values("a")), driver.store("numbers").get("a")


@pytest.mark.parametrize("loses_disk", [None, False, True])
def test_a_read_renews_its_element_alone_and_scans_renew_none(loses_disk: bool | None) -> None:
    ttl = int(TTL.total_seconds() * 1_000)
    stores = USED_PRICES, USED_TAGS, USED_NUMBERS
    builder = StreamsBuilder()
    builder.stream("in", value=str).process(LookAtElements, stores=stores)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", "put", 0), ("a", "get", ttl - 1), ("a", "scan", ttl - 1)])
        driver.pipe("in", "a", "get", timestamp=1)  # late
        if loses_disk is not None:
            driver.crash(loses_disk=loses_disk)
        driver.pipe("in", "b", "get", timestamp=ttl)
        assert elements(driver) == (["x"], ["x"], 1)
        driver.pipe("in", "b", "get", timestamp=2 * ttl - 2)
        assert elements(driver) == (["x"], ["x"], 1)
        driver.pipe("in", "b", "get", timestamp=2 * ttl - 1)
        assert elements(driver) == ([], [], None)
        driver.pipe("in", "a", "get", timestamp=2 * ttl - 1)
        assert elements(driver) == ([], [], None)


DECLARED: dict[str, Callable[[], Any]] = {
    "key_value": lambda: key_value_store("read", str, int, renew_on_read=True),
    "map": lambda: map_store("read", str, str, int, renew_on_read=True),
    "set": lambda: set_store("read", str, str, renew_on_read=True),
    "counter": lambda: counter_store("read", str, renew_on_read=True),
}


@pytest.mark.parametrize("kind", DECLARED)
def test_reads_renew_no_rows_of_a_store_without_a_ttl(kind: str) -> None:
    with pytest.raises(TopologyError, match="has renew_on_read=True and no ttl"):
        DECLARED[kind]()
