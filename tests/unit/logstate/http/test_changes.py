"""The committed changes of stores, as server-sent events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from logstate.app.application import Application
from logstate.changelog.cut import MANIFEST_KEY
from logstate.contracts.clients import Admin, NewTopic
from logstate.contracts.clock import ManualClock
from logstate.contracts.partitioner import partition_of
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.contracts.serde import HeaderList, Serde
from logstate.contracts.serving import Serving
from logstate.contracts.topic_names import changelog_topic
from logstate.http.changes import ChangeFeed, ChangesGoneError
from logstate.testing import FakeCluster
from logstate.topics.manifest_log import log_of
from logstate.topology import StreamsBuilder
from tests.patience import PATIENCE_S
from tests.unhurried import no_silence  # noqa: F401  for this module
from tests.unit.logstate.instances import (
    KEYS,
    PARTITIONS,
    cluster_with,
    instance,
    send,
    shared,
    until,
)


def no_other(_admin: Admin, _store: str) -> None:
    """The log of each store is called after it."""


TOTAL = sum(range(1, len(KEYS) + 1))


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_with()


@pytest.fixture
def app(cluster: FakeCluster, tmp_path: Path) -> Iterator[Application]:
    with instance(cluster, tmp_path, serve=Serving("127.0.0.1:0", streams=2)) as app:
        until(app, shared(app, 1))
        yield app


@pytest.fixture
def http(app: Application) -> Iterator[httpx.Client]:
    host = app.all_instances()[0].host
    with httpx.Client(base_url=host, trust_env=False, timeout=PATIENCE_S) as client:
        yield client


def events(response: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    """Id and data of each change; the data of an error under the id "error"."""
    name = place = ""
    for line in response.iter_lines():
        field, _, rest = line.partition(": ")
        if field == "id":
            place = rest
        elif field == "event":
            name = rest
        elif field == "data":
            yield name or place, json.loads(rest)


def positions(place: str) -> dict[int, int]:
    places = place.partition("@")[0].split(",")
    return {int(p): int(at) for p, _, at in (one.partition(":") for one in places)}


def until_counted(found: Iterator[tuple[str, dict[str, Any]]]) -> tuple[str, dict[str, int]]:
    """The last id, and what each key came to, once all records were counted."""
    counts: dict[str, int] = {}
    for place, change in found:
        counts[change["key"]] = change["value"]
        if sum(counts.values()) == TOTAL:
            return place, counts
    raise AssertionError(counts)


def test_every_committed_change_comes_once_and_a_reader_goes_on_where_it_was(
    http: httpx.Client, cluster: FakeCluster
) -> None:
    path = "/stores/counts/changes"
    with http.stream("GET", path, params={"from": "beginning"}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        place, counts = until_counted(events(response))
    assert counts == {key: i + 1 for i, key in enumerate(KEYS)}
    send(cluster, "k3")
    with http.stream("GET", path, headers={"Last-Event-ID": place}) as response:
        later, change = next(events(response))
    partition = partition_of(b"k3", PARTITIONS)
    assert (change["key"], change["value"], change["partition"]) == ("k3", 5, partition)
    before, after = positions(place), positions(later)
    assert after == {**before, partition: change["offset"] + 1}


def test_windows_carry_their_times_and_a_deletion_is_null(
    http: httpx.Client, cluster: FakeCluster
) -> None:
    with http.stream("GET", "/stores/per-10s/changes?from=beginning") as response:
        _, change = next(events(response))
    assert (change["start_ms"], change["end_ms"]) == (0, 10_000)
    assert change["key"] in KEYS
    with http.stream("GET", "/stores/names/changes?from=beginning") as response:
        found = events(response)
        assert next(found)[1]["value"] == "Ada"
        cluster.produce("names", b"k1", None, timestamp=2)
        _, change = next(found)
    assert (change["key"], change["value"]) == ("k1", None)


def test_what_is_not_committed_is_no_change(http: httpx.Client, cluster: FakeCluster) -> None:
    topic = changelog_topic("app", "counts")
    with http.stream("GET", "/stores/counts/changes?from=beginning") as response:
        until_counted(found := events(response))
        for name, ends in (("aborts", "abort"), ("commits", "commit")):
            producer = cluster.transactional_producer(name)
            producer.init_transactions()
            producer.begin()
            row = ProducedRecord(topic, 0, name.encode(), (7).to_bytes(8, "big"), 1)
            producer.produce([row])
            producer.flush()
            getattr(producer, ends)()
        assert next(found)[1]["key"] == "commits"


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/stores/nothing/changes", 400, "there is no store 'nothing'"),
        ("/stores/counts/changes?from=yesterday", 400, "from must be now or beginning"),
        ("/stores/counts/changes?after=garbage", 400, "'garbage' is not the id of a change"),
        ("/stores/counts/changes?after=0:1", 400, "is not the id of a change of this store"),
        ("/stores/counts/changes?after=0:1" + "0" * 5_000, 400, "is not the id of a change"),
        ("/stores/counts/changes?after=0:\u00b2,1:0,2:0,3:0", 400, "is not the id of a change"),
        ("/stores/counts/changes?after=0:0,1:0,2:0,3:0@x", 400, "is not the id of a change"),
        ("/stores/counts/changes?after=0:9999,1:0,2:0,3:0", 410, "start over"),
    ],
)
def test_what_cannot_be_gone_on_from_says_why(
    http: httpx.Client, path: str, status: int, reason: str
) -> None:
    refused = http.get(path)
    assert (refused.status_code, reason in refused.json()["error"]) == (status, True), refused.text


def test_there_are_no_more_streams_than_the_setting_allows(http: httpx.Client) -> None:
    path = "/stores/counts/changes?from=beginning"
    with http.stream("GET", path) as first, http.stream("GET", path) as second:
        next(events(first))
        next(events(second))
        refused = http.get(path)
        assert refused.status_code == 503
        assert "2 streams of changes are open" in refused.json()["error"]


def test_changes_that_are_deleted_below_a_reader_end_its_stream(
    http: httpx.Client, cluster: FakeCluster
) -> None:
    partition = TopicPartition(changelog_topic("app", "per-10s"), 0)
    with http.stream("GET", "/stores/per-10s/changes?after=0:0,1:0,2:0,3:0") as response:
        found = events(response)
        next(found)
    admin = cluster.admin()
    admin.delete_records({partition: admin.end_offsets([partition])[partition]})
    refused = http.get("/stores/per-10s/changes?after=0:0,1:0,2:0,3:0")
    assert (refused.status_code, "has " in refused.json()["error"]) == (410, True)


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_an_id_that_is_older_than_deletions_are_kept_is_gone_on_from_nowhere(policy: str) -> None:
    """A deletion that was compacted away meanwhile would be missed without a word."""
    builder = StreamsBuilder()
    builder.table("in", value=str, store="rows")
    spec, cluster = builder.build("none").stores["rows"], FakeCluster()
    config = {"cleanup.policy": policy, "delete.retention.ms": "60000"}
    topic = "app-rows-changelog"
    cluster.admin().create_topics([NewTopic(topic, 1, 1, config)])
    clock = ManualClock(1_000_000)

    def reader(after: str) -> ChangeFeed:
        return ChangeFeed(
            spec, "app", cluster, after, from_beginning=True, clock=clock, log_of=no_other
        )

    cluster.produce(topic, b"k", b"v", timestamp=1)
    first = reader("")
    place = first.read().decode().partition("\n")[0].removeprefix("id: ")
    topic_id = cluster.admin().describe_topics([topic])[topic].topic_id
    assert place == f"0:1@1000~{topic_id}"
    clock.advance(55_000)
    reader(place).close()  # nothing was written since: nothing can have been missed
    cluster.produce(topic, b"k", None, timestamp=2)
    if policy == "compact":
        with pytest.raises(ChangesGoneError, match=r"is 55 s old, and .* keeps deletions for 60 s"):
            reader(place)
    else:
        reader(place).close()
    reader("0:1").close()  # of an earlier version: nobody knows how old it is
    assert first.read().decode().startswith("id: 0:2@1055~")
    assert first.read().decode() == f": nothing yet\nid: 0:2@1055~{topic_id}\n\n"
    first.close()


def test_the_changes_of_a_store_that_was_renamed_or_moved_are_those_of_its_log() -> None:
    builder = StreamsBuilder()
    builder.table("in", value=str, store="rows")
    spec = builder.build("none").stores["rows"]
    logs = ("app-rows-changelog", "app-g1.rows-changelog", "app-cuts")
    cluster, clock = FakeCluster(dict.fromkeys(logs, 1)), ManualClock()
    cluster.produce("app-rows-changelog", b"k", b"of another time", timestamp=1)
    cluster.produce("app-g1.rows-changelog", b"k", b"now", timestamp=1)
    for log in logs[:2]:
        entry = {"kind": spec.kind, "changelog_topic": log, "partitions": 1, "sub_topology": 0}
        entry |= {"source_topics": ["in"], "key": None, "value": None}
        manifest = json.dumps({"application_id": "app", "stores": {"rows": entry}}).encode()
        cluster.produce("app-cuts", MANIFEST_KEY, manifest, timestamp=0)
    named = partial(log_of, application_id="app", cluster=cluster, clock=clock)

    reader = ChangeFeed(spec, "app", cluster, "", from_beginning=True, clock=clock, log_of=named)

    told = reader.read().decode()
    assert '"value":"now"' in told
    reader.close()
    place = told.partition("\n")[0].removeprefix("id: ")
    other = "0:1@0~of-the-log-before"
    with pytest.raises(ChangesGoneError, match="in a log that was deleted, or moved"):
        ChangeFeed(spec, "app", cluster, other, from_beginning=True, clock=clock, log_of=named)
    ChangeFeed(spec, "app", cluster, place, from_beginning=True, clock=clock, log_of=named).close()


class Named(Serde[str]):
    """Text whose codec a header names, on topics; in stores it is UTF-8."""

    def serializer(self, topic: str, is_key: bool) -> Callable[[str], bytes]:
        return str.encode

    def deserializer(self, topic: str, is_key: bool) -> Callable[[bytes], str]:
        return bytes.decode

    def header_deserializer(self, topic: str, is_key: bool) -> Callable[[bytes, HeaderList], str]:
        return lambda data, headers: data.decode(str((dict(headers)["codec"] or b"").decode()))

    def describe(self) -> dict[str, Any]:
        return {"format": "named", "schema": None}


@pytest.mark.parametrize(
    ("optimization", "topic", "data"),
    [
        ("reuse_source_topics", "in", "ä".encode("utf-16")),
        ("none", "app-rows-changelog", "ä".encode()),
    ],
)
def test_headers_say_how_a_source_topic_is_read_and_nothing_about_a_changelog(
    optimization: str, topic: str, data: bytes
) -> None:
    builder = StreamsBuilder()
    builder.table("in", value=Named(), store="rows")
    spec = builder.build(optimization).stores["rows"]
    cluster = FakeCluster({topic: 1})
    cluster.produce(topic, b"k", data, timestamp=1, headers=[("codec", b"utf-16")])
    clock = ManualClock()
    reader = ChangeFeed(spec, "app", cluster, "", from_beginning=True, clock=clock, log_of=no_other)
    told = reader.read().decode()
    reader.close()
    assert '"key":"k","value":"\u00e4"' in told
