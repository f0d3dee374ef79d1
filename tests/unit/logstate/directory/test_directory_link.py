"""The thread that reads and writes the directory, over brokers in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from logstate.contracts.clock import SystemClock
from logstate.contracts.errors import TopicError
from logstate.contracts.topic_names import instances_topic
from logstate.directory.directory_link import DirectoryLink, DirectoryTopic
from logstate.directory.entries import InstanceEntry, TaskEntry, encode_entry, signed
from logstate.testing import FakeCluster
from logstate.topics.internal_topics import own_topics
from logstate.topology import StreamsBuilder
from tests import patience
from tests.unhurried import no_silence  # noqa: F401  for this module

TOPIC = DirectoryTopic("app", -1, {})


def link(
    cluster: FakeCluster,
    name: str,
    tasks: dict[str, TaskEntry],
    on_stop_request: Callable[[InstanceEntry], None] = lambda _: None,
    listened: Callable[[], None] = lambda: None,
    token: str = "",
) -> DirectoryLink:
    def describe() -> InstanceEntry:
        return InstanceEntry(name, f"http://{name}:1", 0, 50, tasks=dict(tasks))

    return DirectoryLink(TOPIC, cluster, SystemClock(), describe, listened, on_stop_request, token)


def until(one: DirectoryLink, is_so: Callable[[], bool]) -> None:
    patience.until(is_so, lambda: str(one.trouble))


def owner(one: DirectoryLink, task: str) -> str | None:
    entry = one.known.owner(task, SystemClock().monotonic_ms()).entry
    return None if entry is None else entry.instance


def test_instances_hear_of_each_other_and_of_a_clean_end() -> None:
    cluster = FakeCluster({})
    tasks_of_a = {"0_0": TaskEntry(0, "running")}
    a, b = link(cluster, "a", tasks_of_a), link(cluster, "b", {})
    a.start()
    until(a, lambda: a.trouble is None)
    b.start()
    until(b, lambda: b.trouble is None and owner(b, "0_0") == "a")
    tasks_of_a["0_1"] = TaskEntry(0, "assigned")  # news are told without a heartbeat's wait
    until(b, lambda: owner(b, "0_1") == "a")
    a.stop()
    until(b, lambda: owner(b, "0_0") is None)
    b.stop()
    # Its last words may come later than a stop waits for them.
    topic = instances_topic("app")
    last = lambda: {r.key(): r.value() for r in cluster.records(topic)}  # noqa: E731
    patience.until(lambda: last() == {b"a": None, b"b": None}, lambda: str(last()))
    assert (
        cluster.admin().topic_configs([instances_topic("app")])[instances_topic("app")][
            "cleanup.policy"
        ]
        == "compact"
    )


def test_who_comes_knows_the_others_before_it_has_told_of_itself() -> None:
    cluster = FakeCluster({TOPIC.partition.topic: 1})
    there = InstanceEntry("b", "http://b:1", 1, 60_000, tasks={"0_0": TaskEntry(1, "running")})
    cluster.produce(TOPIC.partition.topic, b"b", encode_entry(there), timestamp=1, partition=0)
    heard: list[tuple[str | None, int]] = []

    def listened() -> None:
        heard.append((owner(one, "0_0"), len(cluster.records(TOPIC.partition.topic))))

    one = link(cluster, "a", {}, listened=listened)
    one.start()
    patience.until(lambda: bool(heard))
    one.stop()
    assert heard[0] == ("b", 1)


def test_who_has_died_before_is_known_to_be_silent_by_who_comes_and_who_lives_is_not() -> None:
    cluster = FakeCluster({TOPIC.partition.topic: 1})
    for name, at_ms in (("dead", 7), *(("alive", 60_000 * beat) for beat in range(1, 10))):
        entry = encode_entry(InstanceEntry(name, f"http://{name}:1", 1, 60_000))
        topic, partition = TOPIC.partition
        cluster.produce(topic, name.encode(), entry, timestamp=at_ms, partition=partition)
    heard: list[tuple[float, float]] = []

    def listened() -> None:
        known, now_ms = one.known, SystemClock().monotonic_ms()
        heard.append((known.silent_ms("dead", now_ms), known.silent_ms("alive", now_ms)))

    one = link(cluster, "a", {}, listened=listened)
    one.start()
    patience.until(lambda: bool(heard))
    one.stop()
    dead_ms, alive_ms = heard[0]
    assert dead_ms - alive_ms > 7 * 60_000


def test_brokers_that_are_away_are_waited_for_and_said_so() -> None:
    cluster = FakeCluster({})
    one = link(cluster, "a", {})
    cluster.away = "the cable is out"
    one.start()
    until(one, lambda: "the cable is out" in (one.trouble or ""))
    cluster.away = None
    until(one, lambda: one.trouble is None)
    one.stop()


def test_who_asks_all_to_stop_is_heard_in_a_directory_that_was_made_anew() -> None:
    cluster = FakeCluster({TOPIC.partition.topic: 1})
    for _ in range(200):  # the new one is shorter for as long as the test takes
        cluster.produce(TOPIC.partition.topic, b"old", None, timestamp=1, partition=0)
    heard: list[InstanceEntry] = []
    a, b = link(cluster, "a", {}, heard.append), link(cluster, "b", {})
    a.start()
    until(a, lambda: a.trouble is None)
    admin = cluster.admin()
    admin.delete_topics([TOPIC.partition.topic])
    admin.create_topics([TOPIC.new()])
    b.start()
    until(b, lambda: b.trouble is None)
    b.stop("it failed")
    patience.until(lambda: bool(heard))
    assert heard[0].stops_all == "it failed"
    a.stop()


def test_records_that_are_no_entries_are_ignored_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster({TOPIC.partition.topic: 1})
    wrong = InstanceEntry("x", "http://x:1", 1, 0)
    for _ in range(3):
        cluster.produce(TOPIC.partition.topic, b"x", encode_entry(wrong), timestamp=1, partition=0)
    one = link(cluster, "a", {"0_0": TaskEntry(0, "running")})
    one.start()
    until(one, lambda: one.trouble is None and owner(one, "0_0") == "a")
    one.stop()
    told = [r.getMessage() for r in caplog.records if "is ignored" in r.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("instance 'x' is ignored: offset 0 of")


def test_a_directory_in_several_partitions_is_refused() -> None:
    cluster = FakeCluster({instances_topic("app"): 2})
    with pytest.raises(TopicError, match="has 2 partitions and needs 1"):
        TOPIC.ensure(cluster.admin())


def test_a_pattern_of_sources_never_means_the_directory() -> None:
    builder = StreamsBuilder()
    builder.stream("clicks", key=str, value=str)
    assert instances_topic("app") in own_topics(builder.build(), "app")


def forge(cluster: FakeCluster, entry: InstanceEntry, value: bytes | None = None) -> None:
    """A record by another program."""
    data = encode_entry(entry) if value is None else value
    cluster.produce(TOPIC.partition.topic, entry.instance.encode(), data, timestamp=1, partition=0)


def addresses(one: DirectoryLink) -> set[str]:
    return {entry.address for entry in one.known.live(SystemClock().monotonic_ms())}


def test_with_a_token_an_entry_that_is_not_signed_has_no_address_and_no_tasks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster({})
    heard: list[InstanceEntry] = []
    a = link(cluster, "a", {"0_0": TaskEntry(0, "running")}, heard.append, token="hush")
    b = link(cluster, "b", {}, token="hush")
    a.start()
    b.start()
    until(b, lambda: b.trouble is None and owner(b, "0_0") == "a")
    tasks = {"0_0": TaskEntry(9, "running")}
    for name in ("evil", "a"):  # of its own, and under the name of another instance
        forged = InstanceEntry(name, "http://evil:1", 9, 50, tasks=tasks, stops_all="evil")
        forge(cluster, forged)
        forge(cluster, forged, signed(encode_entry(forged), "guessed", "app"))
        forge(cluster, forged, signed(encode_entry(forged), "hush", "other application"))
    until(b, lambda: b.known.has_valid_entry("evil"))
    until(b, lambda: owner(b, "0_0") == "a")  # with its next entry
    assert "http://evil:1" not in addresses(a) | addresses(b)
    assert not heard
    assert "is not signed with the token" in caplog.text
    assert caplog.text.count("instance 'evil' has no address") <= 2  # of each of the two
    a.stop()
    b.stop()


def test_with_a_token_a_signed_request_to_stop_is_heard_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster({})
    heard: list[InstanceEntry] = []
    a, b = (link(cluster, name, {}, heard.append, token="hush") for name in "ab")
    a.start()
    b.start()
    until(a, lambda: a.trouble is None and a.known.has_valid_entry("b"))
    b.stop("it failed")
    patience.until(lambda: bool(heard))
    assert {entry.stops_all for entry in heard} == {"it failed"}
    a.stop()
    topic = TOPIC.partition.topic
    said = [r.value() or b"" for r in cluster.records(topic) if b"it failed" in (r.value() or b"")]
    heard.clear()
    later = link(cluster, "c", {}, heard.append, token="hush")
    later.start()
    until(later, lambda: later.trouble is None)
    forge(cluster, InstanceEntry("b", "", 0, 50), said[0])  # written again, as it was
    until(later, lambda: later.known.has_valid_entry("b"))
    patience.until(lambda: "it was written for an earlier run" in caplog.text)
    assert not heard
    later.stop()


def test_without_a_token_one_record_of_a_stranger_stops_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster({})
    heard: list[InstanceEntry] = []
    a = link(cluster, "a", {}, heard.append)
    a.start()
    until(a, lambda: a.trouble is None)
    forge(cluster, InstanceEntry("evil", "http://evil:1", 9, 50, stops_all="evil"))
    until(a, lambda: a.known.has_valid_entry("evil"))
    patience.until(lambda: "its writer is unknown" in caplog.text)
    assert not heard
    a.stop()
