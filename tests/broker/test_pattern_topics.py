"""A stream that is read by a pattern of topics, on a real broker."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from confluent_kafka import Producer

from logstate.app.application import Application
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import StoreUnavailableError
from logstate.kafka.cluster import KafkaCluster
from logstate.topology import StreamsBuilder, Topology
from tests.patience import PATIENCE_S, until


def counting(prefix: str) -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream(re.compile(f"{re.escape(prefix)}-.*"), key=str, value=str)
    orders.group_by_key().count(store="counts")
    return builder.build()


def test_every_topic_that_matches_is_read_at_the_start_and_when_it_is_created(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    # The application's own topics match as well, and are not meant.
    prefix = unique("orders")
    admin = KafkaCluster(bootstrap).admin()
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})

    def make_topic(name: str) -> None:
        admin.create_topics([NewTopic(name, 2, 1, {})])
        producer.produce(name, key=b"ada", value=b"tea")
        assert producer.flush(PATIENCE_S) == 0

    def count_of_ada(app: Application) -> int | None:
        try:
            row = app.store("counts").get("ada")
        except StoreUnavailableError:  # until its partition is assigned
            return None
        return None if row is None else row.value

    def application(name: str) -> Application:
        return Application(
            counting(prefix),
            application_id=prefix,
            bootstrap=bootstrap,
            state_dir=tmp_path / name,
            commit_interval=timedelta(milliseconds=50),
            topics_interval=timedelta(milliseconds=250),
        )

    def expect_of_ada(count: int) -> None:
        with application("one") as app:
            until(lambda: count_of_ada(app) == count, lambda: f"{count_of_ada(app)}, not {count}")

    make_topic(f"{prefix}-eu")
    make_topic(f"{prefix}-us")
    make_topic(unique("other"))
    assert f"{prefix}-eu" in admin.topic_names()
    assert not any(name.startswith("__") for name in admin.topic_names())
    expect_of_ada(2)
    make_topic(f"{prefix}-asia")
    expect_of_ada(3)
    with ExitStack() as running:
        apps = [running.enter_context(application(name)) for name in ("one", "two")]
        until(lambda: [count_of_ada(app) for app in apps].count(3) == 1)
        make_topic(f"{prefix}-africa")
        make_topic(f"{prefix}-america")
        until(
            lambda: 5 in [count_of_ada(app) for app in apps],
            lambda: f"{[count_of_ada(app) for app in apps]}, not 5",
        )
    admin.close()
