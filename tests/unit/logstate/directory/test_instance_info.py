"""Who looks at the directory from outside: whom he takes for alive, and who has which task."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from logstate.contracts.clock import ManualClock
from logstate.contracts.records import ProducedRecord
from logstate.contracts.topic_names import instances_topic
from logstate.directory.entries import InstanceEntry, TaskEntry, encode_entry
from logstate.directory.instance_info import describe_instances, tasks_of
from logstate.testing import FakeCluster

TOPIC = instances_topic("app")
RUNNING = TaskEntry(1, "running", is_readable=True, lag=3)


def entry(name: str, **tasks: TaskEntry) -> InstanceEntry:
    told = {task.removeprefix("t"): one for task, one in tasks.items()}
    return InstanceEntry(name, f"http://{name}:1", 1, 1_000, tasks=told, task_counts={0: 2})


class Looking(ManualClock):
    """A quarter of a second passes between two looks at the clock, and something happens in it."""

    def __init__(self, happens: Callable[[], None]) -> None:
        super().__init__()
        self.happens = happens

    def monotonic_ms(self) -> float:
        self.advance(250)
        self.happens()
        return super().monotonic_ms()


def tell(cluster: FakeCluster, name: str, one: InstanceEntry | None, at_ms: int = 1) -> None:
    producer = cluster.plain_producer()
    value = None if one is None else encode_entry(one)
    producer.produce([ProducedRecord(TOPIC, 0, name.encode(), value, at_ms)])
    producer.flush()


def test_who_is_heard_again_is_alive_and_who_is_not_is_silent() -> None:
    cluster = FakeCluster({TOPIC: 1})
    for name in ("a", "b", "gone"):
        tell(cluster, name, entry(name))
    tell(cluster, "gone", None)
    clock = Looking(lambda: tell(cluster, "a", entry("a")))
    seen = describe_instances("app", cluster, cluster.admin(), clock)
    assert [(one.entry.instance, one.is_alive) for one in seen] == [("a", True), ("b", False)]
    assert clock.monotonic_ms() > 5_000, "b was given as long as its heartbeats allow"


def test_nobody_waits_for_who_has_been_silent_for_as_long_as_others_tell() -> None:
    cluster = FakeCluster({TOPIC: 1})
    tell(cluster, "b", entry("b"))
    for at_ms in range(1, 9_000, 1_000):
        tell(cluster, "a", entry("a"), at_ms)
    clock = Looking(lambda: tell(cluster, "a", entry("a")))
    seen = describe_instances("app", cluster, cluster.admin(), clock)
    assert [(one.entry.instance, one.is_alive) for one in seen] == [("a", True), ("b", False)]
    assert clock.monotonic_ms() < 2_000


def test_where_all_live_a_look_ends_as_soon_as_all_were_heard() -> None:
    cluster = FakeCluster({TOPIC: 1})
    tell(cluster, "a", entry("a"))
    clock = Looking(lambda: tell(cluster, "a", entry("a")))
    assert all(one.is_alive for one in describe_instances("app", cluster, cluster.admin(), clock))
    assert clock.monotonic_ms() < 2_000


def test_an_application_that_never_had_a_directory_has_no_instances() -> None:
    cluster = FakeCluster({})
    assert describe_instances("app", cluster, cluster.admin(), ManualClock()) == []


def test_tasks_have_the_owner_with_the_highest_claim_and_nobody_has_the_others() -> None:
    cluster = FakeCluster({TOPIC: 1})
    both = {
        "a": entry("a", t0_0=RUNNING),
        "b": entry("b", t0_0=TaskEntry(2, "restoring", restore_records=7)),
    }

    def all_tell() -> None:
        for name, one in both.items():
            tell(cluster, name, one)

    all_tell()
    first, second = tasks_of(describe_instances("app", cluster, cluster.admin(), Looking(all_tell)))
    assert (first.task, first.stage, first.instance, first.restore_records) == (
        "0_0",
        "restoring",
        "b",
        7,
    )
    assert (second.task, second.stage, second.remark) == ("0_1", None, "no live instance has it")


def test_whoever_keeps_a_task_warm_does_not_own_it() -> None:
    cluster = FakeCluster({TOPIC: 1})
    warm = replace(entry("b"), standbys={"0_0": 3})

    def all_tell() -> None:
        tell(cluster, "a", entry("a", t0_0=RUNNING))
        tell(cluster, "b", warm)

    all_tell()
    first, _ = tasks_of(describe_instances("app", cluster, cluster.admin(), Looking(all_tell)))
    assert (first.instance, first.lag, first.standbys) == ("a", 3, ("b",))
