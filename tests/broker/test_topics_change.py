"""Topics that change beneath a running application, and keys that another producer placed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from logstate import Application, StoreUnavailableError, StreamsBuilder, TumblingWindows
from logstate.contracts.errors import LogstateError
from logstate.contracts.partitioner import partition_of
from logstate.topology.plan.plan import Topology
from tests.broker.raw_topic import create_topic
from tests.patience import PATIENCE_S, until

PARTITIONS = 4
KEYS = [f"u{number}" for number in range(40)]


def seen_by(seen: list[str], name: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream(name, value=str).foreach(lambda key, _: seen.append(key))
    return builder.build()


def counted(name: str) -> Topology:
    builder = StreamsBuilder()
    words = builder.stream(name, value=str).group_by(lambda _, v: v, key=str, name="words")
    words.count(store="n")
    return builder.build()


def counted_by_key(name: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream(name, value=str).group_by_key().count(store="n")
    return builder.build()


def tables(name: str) -> Topology:
    builder = StreamsBuilder()
    builder.table(name, value=str, store="rows")
    grouped = builder.stream(f"{name}.events", value=str).group_by_key()
    grouped.windowed_by(TumblingWindows(size=timedelta(days=1))).count(store="windows")
    return builder.build()


def instance(topology: Topology, bootstrap: str, name: str, state: Path) -> Application:
    return Application(
        topology,
        application_id=name,
        bootstrap=bootstrap,
        state_dir=state,
        commit_interval=timedelta(milliseconds=50),
        topics_interval=timedelta(milliseconds=250),
    )


@contextmanager
def running(app: Application) -> Iterator[None]:
    """Until the end of the block, or until it stopped by itself."""
    app.start()
    try:
        app.wait_until_running(timedelta(seconds=PATIENCE_S))
        yield
    finally:
        with suppress(LogstateError):
            app.close()


def failure_of(app: Application) -> str:
    until(lambda: not app.is_alive, "the application goes on")
    with pytest.raises(LogstateError) as caught:
        app.close()
    return str(caught.value)


def seen_in(app: Application, *stores: str) -> int:
    """Rows that an instance has and shows."""
    try:
        return sum(len(list(app.store(one).all())) for one in stores)
    except StoreUnavailableError:
        return 0


def put(bootstrap: str, topic: str, *, partitions: int, partitioner: str | None = None) -> None:
    """Write a record per key, once the broker that answers knows all partitions."""
    settings = {} if partitioner is None else {"partitioner": partitioner}
    producer, failed = Producer({"bootstrap.servers": bootstrap, **settings}), list[object]()
    until(
        lambda: len(producer.list_topics(topic, PATIENCE_S).topics[topic].partitions) == partitions
    )
    for number, key in enumerate(KEYS):
        where = {} if partitioner is not None else {"partition": number % partitions}
        producer.produce(
            topic,
            key=key,
            value="v",
            timestamp=number + 1,
            on_delivery=lambda error, _: failed.append(error) if error else None,
            **where,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert failed == []


@pytest.fixture
def topic(bootstrap: str, unique: Callable[[str], str]) -> str:
    name = unique("changing")
    create_topic(bootstrap, name, partitions=2)
    return name


def grow(bootstrap: str, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(PATIENCE_S)


def delete(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    until(lambda: topic not in admin.list_topics(timeout=PATIENCE_S).topics)


def test_partitions_that_are_added_are_read_where_there_is_no_state(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    seen: list[str] = []
    app = instance(seen_by(seen, topic), bootstrap, topic, tmp_path)
    with running(app):
        grow(bootstrap, topic, 4)
        put(bootstrap, topic, partitions=4)
        until(lambda: set(seen) == set(KEYS), lambda: f"{len(set(seen))} of {len(KEYS)} are read")
        until(lambda: len(app.tasks()) == 4 and set(app.tasks().values()) == {"running"})
        assert app.is_alive


def test_with_state_it_stops_and_names_the_remedy(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    app = instance(counted(topic), bootstrap, topic, tmp_path)
    with running(app):
        grow(bootstrap, topic, 4)
        said = failure_of(app)
    assert "logstate reshard" in said
    assert topic in said


def test_an_internal_topic_of_another_count_stops_it(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    app = instance(counted(topic), bootstrap, topic, tmp_path)
    with running(app):
        internal = f"{topic}-words-repartition"
        grow(bootstrap, internal, 5)
        said = failure_of(app)
    assert f"{internal!r} has 5 partitions and needs 2" in said


def test_a_topic_that_is_deleted_and_made_again_stops_it(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    put(bootstrap, topic, partitions=2)
    app = instance(counted_by_key(topic), bootstrap, topic, tmp_path)
    with running(app):
        until(lambda: seen_in(app, "n") == len(KEYS))
        delete(bootstrap, topic)
        create_topic(bootstrap, topic, partitions=2)
        said = failure_of(app)
    assert topic in said
    assert "reset" in said or "does not exist" in said


#: a store, and what finds the row of a key in it
READS = (("rows", "get", ()), ("windows", "fetch", (0,)))


def answer(app: Application, store: str, read: str, key: str, *arguments: int) -> str:
    """What was found: "row", "none", or "elsewhere" where it cannot be told."""
    try:
        found = getattr(app.store(store), read)(key, *arguments)
    except StoreUnavailableError:
        return "elsewhere"
    return "none" if found is None else "row"


@pytest.mark.parametrize("instances", [1, 2])
def test_no_row_is_denied_that_librdkafka_placed_by_its_default(
    instances: int, bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    name = unique("placed")
    for one in (name, f"{name}.events"):
        create_topic(bootstrap, one, partitions=PARTITIONS)
        put(bootstrap, one, partitions=PARTITIONS, partitioner="consistent_random")
    strayed = [
        key
        for key in KEYS
        if partition_of(key.encode(), PARTITIONS) != zlib.crc32(key.encode()) % PARTITIONS
    ]
    assert len(strayed) > len(KEYS) // 2
    apps = [
        instance(tables(name), bootstrap, name, tmp_path / str(number))
        for number in range(instances)
    ]
    with ExitStack() as held:
        for app in apps:
            held.enter_context(running(app))
        until(lambda: sum(seen_in(app, "rows", "windows") for app in apps) == 2 * len(KEYS))
        for store, read, arguments in READS:
            for key in KEYS:
                told = [answer(app, store, read, key, *arguments) for app in apps]
                assert "none" not in told
                assert told.count("row") == 1
            told = [answer(app, store, read, "nobody", *arguments) for app in apps]
            assert told == (["none"] if instances == 1 else ["elsewhere"] * instances)
