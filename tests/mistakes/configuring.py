"""Mistakes in the settings of an application."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from typing import Any

from logstate import Application, ErrorHandlers, StreamsBuilder
from logstate.testing import FakeCluster
from logstate.topology.plan.plan import Topology
from tests.mistakes.mistake import mistake


def topology(source: str = "in", sink: str = "out") -> Topology:
    builder = StreamsBuilder()
    builder.stream(source, value=str).to(sink)
    return builder.build()


def application(**settings: Any) -> Application:
    defaults: dict[str, Any] = {
        "topology": topology(),
        "application_id": "app",
        "bootstrap": "localhost:9092",
        "state_dir": tempfile.mkdtemp(),
    }
    return Application(**(defaults | settings))


@mistake("commit_interval must be a timedelta", "got 5", "timedelta(milliseconds=")
def an_interval_is_a_number() -> None:
    application(commit_interval=5)


@mistake("commit_interval must be at least")
def an_interval_is_zero() -> None:
    application(commit_interval=timedelta(0))


@mistake("topology", "StreamsBuilder.build()", "StreamsBuilder")
def the_builder_is_given_for_the_topology() -> None:
    application(topology=StreamsBuilder())


@mistake("bootstrap is empty", "host:port")
def there_are_no_brokers() -> None:
    application(bootstrap="")


@mistake("guarantee", "'exactly_once'", "'exactly-once'")
def a_guarantee_is_misspelt() -> None:
    application(guarantee="exactly-once")


@mistake("kafka['group.id']", "application_id=")
def a_setting_belongs_to_the_engine() -> None:
    application(kafka={"group.id": "mine"})


@mistake("Did you mean", "'linger.ms'")
def a_setting_is_misspelt() -> None:
    application(kafka={"linger.mss": 5})


@mistake("sasl.mechanism", "SCRAM-SHA-512")
def sasl_has_no_mechanism() -> None:
    application(kafka={"security.protocol": "SASL_SSL"})


@mistake("offset_reset", "'latest'", "'lates'")
def the_reset_is_misspelt() -> None:
    application(offset_reset="lates")


async def answer(record: Any) -> Any:
    return record


@mistake("processing handler", "async def", "plain function")
def a_handler_is_a_coroutine_function() -> None:
    ErrorHandlers(processing=answer)  # type: ignore[arg-type]


def start(cluster: FakeCluster, **settings: Any) -> None:
    with application(cluster=cluster, **settings) as app:
        app.wait_until_running()


@mistake("source topic 'in' does not exist")
def an_input_topic_is_missing() -> None:
    start(FakeCluster({"out": 1}))


@mistake("output topic 'out'", "no such topic", "Create it")
def an_output_topic_is_missing() -> None:
    start(FakeCluster({"in": 1}))


@mistake("dead letter topic 'dead'", "no such topic", "Create it")
def the_dead_letter_topic_is_missing() -> None:
    start(FakeCluster({"in": 1, "out": 1}), error_handlers=ErrorHandlers(dead_letter_topic="dead"))


@mistake("was started already", "make a new one")
def an_application_is_started_twice() -> None:
    cluster = FakeCluster({"in": 1, "out": 1})
    with application(cluster=cluster) as app:
        app.start()


@mistake("there is no store 'other'", "the topology has")
def a_store_is_asked_for_by_a_wrong_name() -> None:
    cluster = FakeCluster({"in": 1, "out": 1})
    with application(cluster=cluster) as app:
        app.store("other")
