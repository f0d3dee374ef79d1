"""Rows with a TTL after a kill and a lost disk: a sample of ``python -m tests.campaigns.ttl``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from logstate.app.application import Application
from logstate.contracts.records import ProducedRecord, Record, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.topology import Processor, StreamsBuilder, Topology
from logstate.topology.processor.collection_stores import map_store
from logstate.topology.processor.processor_stores import key_value_store
from tests.broker.committed import committed_records
from tests.broker.raw_topic import create_topic
from tests.campaigns.ttl.story import run
from tests.patience import until

SECOND = timedelta(seconds=1)
SEEN = key_value_store("seen", str, str, ttl=SECOND, ttl_by="wall_clock")
LEASES = map_store("leases", str, str, int, ttl=SECOND, ttl_by="wall_clock", expired="ended")


class Remember(Processor[str, str, str, str]):
    """Keeps the last value of each key for a second, and emits when that has passed."""

    def process(self, record: Record[str, str]) -> None:
        self.context.store(SEEN).put(record.key, record.value)
        self.context.store(LEASES).put(record.key, record.value, 1)


def remembering(topic: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream(topic, key=str, value=str).process(Remember, stores=[SEEN, LEASES])
    ended = builder.expired("ended", key=str, value=tuple[str, int])
    ended.map_values(repr, value=str).to(f"{topic}-ended")
    return builder.build()


def test_store_changelog_and_remote_query_have_the_rows_that_did_not_expire(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    found = run(bootstrap, unique("ttl"), tmp_path, 15_000, spark=None)
    assert not found.wrong
    assert len(found.expected) == 1_501
    assert set(found.by_reader) == {
        "store before the deletion", "store", "changelog", "remote query"
    }  # fmt: skip


def test_rows_expire_by_the_wall_clock_without_a_later_record(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    name = unique("seen")
    topic, changelog = f"{name}-in", TopicPartition(f"{name}-seen-changelog", 0)
    ended = TopicPartition(f"{topic}-ended", 0)
    for one in (topic, ended.topic):
        create_topic(bootstrap, one, partitions=1)
    producer = KafkaCluster(bootstrap).plain_producer()
    producer.produce([ProducedRecord(topic, 0, b"ada", b"x", 5, None)])
    producer.flush()
    producer.close()

    def logged(log: TopicPartition = changelog) -> list[bytes | None]:
        return [record.value() for record in committed_records(bootstrap, log)]

    def application(state_dir: str) -> Application:
        return Application(
            remembering(topic),
            application_id=name,
            bootstrap=bootstrap,
            state_dir=tmp_path / state_dir,
            commit_interval=timedelta(milliseconds=100),
        )

    with application("first") as app:
        app.wait_until_running()
        until(lambda: logged() == [b"x", None], lambda: f"the changelog has {logged()}")
        until(lambda: logged(ended) == [b"('x', 1)"], lambda: f"emitted: {logged(ended)}")
        assert app.store("seen").get("ada") is None
    with application("second") as app:
        app.wait_until_running()
        assert list(app.store("seen").all()) == []
        assert list(app.store("leases").all()) == []
    assert logged(ended) == [b"('x', 1)"]
