"""Mistakes in the settings of an application."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from threading import Lock
from typing import Any

from logstate import Application, ErrorHandlers, Materialized, StreamsBuilder
from logstate.contracts.serving import Serving
from logstate.task.error_handlers import dead_letter, retry, skip
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


@mistake("commit_interval must be at most 0:10:00", "got 1:00:00", "transaction.max.timeout.ms")
def a_commit_interval_that_no_transaction_may_last() -> None:
    application(commit_interval=timedelta(hours=1))


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


@mistake("kafka['num.standby.replicas']", "standby_replicas=")
def a_setting_is_one_of_kafka_streams() -> None:
    application(kafka={"num.standby.replicas": 1})


@mistake("kafka['turbo']", "not known to the client", "CONFIGURATION.md")
def a_setting_is_none() -> None:
    application(kafka={"turbo": True})


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


@mistake("state_dir", "'file:///var/lib/shop'", "path of a local directory")
def the_state_directory_is_an_address() -> None:
    application(state_dir="file:///var/lib/shop")


@mistake("state_dir", "got ''", "'/var/lib/shop'")
def the_state_directory_is_empty() -> None:
    application(state_dir="")


@mistake("state_dir", "os.path.expandvars('$HOME/state')")
def the_state_directory_has_a_variable() -> None:
    application(state_dir="$HOME/state")


@mistake("bootstrap", "['a:1', 'b:2']", "Write 'a:1,b:2'")
def the_brokers_are_a_list() -> None:
    application(bootstrap=["a:1", "b:2"])


@mistake("bootstrap", "'http://broker:9092'", "host:port")
def the_brokers_are_a_web_address() -> None:
    application(bootstrap="http://broker:9092")


@mistake("offset_reset", "in the future", "Write datetime.timedelta(days=1)")
def the_reset_lies_in_the_future() -> None:
    application(offset_reset=timedelta(days=-1))


@mistake("replication_factor", "'1' (str)", "Write 1")
def a_number_is_text() -> None:
    application(replication_factor="1")


@mistake("error_handlers", "the function skip", "Write ErrorHandlers(processing=")
def a_handler_is_given_for_the_handlers() -> None:
    application(error_handlers=skip)


@mistake("processing handler", "Write retry(3, backoff=")
def retry_is_not_called() -> None:
    ErrorHandlers(processing=retry)  # type: ignore[arg-type]


@mistake("production handler is dead_letter", "dead_letter_topic=")
def dead_letters_have_no_topic() -> None:
    ErrorHandlers(production=dead_letter)


@mistake("message.timestamp.type", "'LogAppendTime'", "restored rows", "Remove it")
def brokers_are_to_date_internal_topics() -> None:
    application(topic_config={"message.timestamp.type": "LogAppendTime"})


@mistake("store 'n'", "'delete'", "missing after a restore", "configuring.py:")
def a_changelog_is_to_be_deleted_by_time() -> None:
    builder = StreamsBuilder()
    store = Materialized("n", changelog_config={"cleanup.policy": "delete"})
    builder.stream("in", value=str).group_by_key().count(store=store)


@mistake("topic_config['retention.ms']", "60000", "Write '60000'")
def a_setting_of_topics_is_a_number() -> None:
    application(topic_config={"retention.ms": 60000})


def start(cluster: FakeCluster, **settings: Any) -> None:
    with application(cluster=cluster, **settings) as app:
        app.wait_until_running()


@mistake("source topic 'in' does not exist")
def an_input_topic_is_missing() -> None:
    start(FakeCluster({"out": 1}))


@mistake("output topic 'out'", "the topic does not exist", "Create it")
def an_output_topic_is_missing() -> None:
    start(FakeCluster({"in": 1}))


@mistake("dead letter topic 'dead'", "the topic does not exist", "Create it")
def the_dead_letter_topic_is_missing() -> None:
    start(FakeCluster({"in": 1, "out": 1}), error_handlers=ErrorHandlers(dead_letter_topic="dead"))


@mistake("uncaught_exception_handler must be 'stop_instance'", "'replace_worker'", "got 'restart'")
def a_response_to_failures_is_unknown() -> None:
    application(uncaught_exception_handler="restart")


@mistake("workers must be", "at least 1", "got 0")
def there_are_no_workers() -> None:
    application(workers=0)


@mistake("workers=2 are separate processes", "cluster= or clock=", "workers=1")
def worker_processes_are_given_a_fake_cluster() -> None:
    application(cluster=FakeCluster({"in": 1, "out": 1}), workers=2)


@mistake("cannot be sent", "lock", "Processor.init", "'module:attribute'")
def a_function_of_worker_processes_uses_a_lock() -> None:
    lock = Lock()
    builder = StreamsBuilder()
    builder.stream("in", value=str).filter(lambda _: lock.acquire()).to("out")
    application(topology=builder.build(), workers=2)


@mistake("names no attribute", "MODULE:ATTRIBUTE")
def a_reference_names_only_a_module() -> None:
    application(topology="shop.spending")


@mistake("'app' is", "before a start, and after close()")
def local_state_is_deleted_while_it_is_used() -> None:
    with application(cluster=FakeCluster({"in": 1, "out": 1})) as app:
        app.clean_up()


@mistake("was started already", "create a new one")
def an_application_is_started_twice() -> None:
    cluster = FakeCluster({"in": 1, "out": 1})
    with application(cluster=cluster) as app:
        app.start()


@mistake("there is no store 'other'", "the topology has")
def a_store_is_asked_for_by_a_wrong_name() -> None:
    cluster = FakeCluster({"in": 1, "out": 1})
    with application(cluster=cluster) as app:
        app.store("other")


@mistake("start_timeout must be a timedelta", "got 5", "timedelta(seconds=")
def a_start_timeout_is_a_number() -> None:
    application(start_timeout=5)


def started_while(away: str) -> None:
    cluster = FakeCluster({"in": 1, "out": 1})
    cluster.away = away
    with application(cluster=cluster, start_timeout=timedelta(0)):
        pass


@mistake("did not answer", "start_timeout allows 0 s", "Name or service not known")
def the_brokers_have_another_name() -> None:
    started_while("broker:9092: Failed to resolve 'broker:9092': Name or service not known")


@mistake("refuse this client", "SASL authentication error", "Correct the credentials")
def the_password_is_wrong() -> None:
    with application(cluster=refusing()):
        pass


def refusing() -> FakeCluster:
    cluster = FakeCluster({"in": 1, "out": 1})
    cluster.away = "they refused you: SASL authentication error: Authentication failed"
    return cluster


@mistake(
    "serve='0.0.0.0:8080'",
    "without a token",
    "anyone who can connect can read every store",
    "token=",
)
def stores_are_served_to_everybody() -> None:
    application(serve="0.0.0.0:8080")


@mistake("metadata_for_key() needs the directory", "not in it", "serve='127.0.0.1:8080'")
def an_owner_is_asked_for_without_an_address() -> None:
    application(cluster=FakeCluster({"in": 1, "out": 1})).metadata_for_key("counts", "ada")


async def page(*told: Any) -> None:
    """Tells somebody, if it is awaited."""


@mistake("the state listener page at", "configuring.py", "async def", "never run")
def a_state_listener_is_a_coroutine_function() -> None:
    application().on_state_change(page)


@mistake("restore_listener page at", "configuring.py", "async def", "never run")
def a_restore_listener_is_a_coroutine_function() -> None:
    application(restore_listener=page)


@mistake("uncaught_exception_handler", "the exception", "configuring.py", "does not take that")
def a_handler_of_failures_takes_nothing() -> None:
    application(uncaught_exception_handler=lambda: "replace_worker")


@mistake("timeout of start()", "got 5 (int)", "Write timedelta(seconds=...)")
def a_time_out_is_a_number() -> None:
    application(cluster=FakeCluster({"in": 1, "out": 1})).start(timeout=5)  # type: ignore[arg-type]


@mistake("max_age of store()", "got 20 (int)", "Write timedelta(seconds=...)")
def an_age_is_a_number() -> None:
    application().store("counts", max_age=20)  # type: ignore[arg-type]


@mistake("dead_letter_topic must be the name of a topic", "249 letters", "got 'dead letters'")
def the_dead_letter_topic_has_a_blank() -> None:
    ErrorHandlers(dead_letter_topic="dead letters")


@mistake("output topic 'app-n-changelog'", "creates that topic for its state", "another name")
def results_go_to_a_changelog() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().count(store="n")
    builder.stream("in", value=str).to("app-n-changelog")
    start(FakeCluster({"in": 1, "app-n-changelog": 1}), topology=builder.build())


@mistake("certificate='/nowhere.crt'", "No such file", "Give a certificate in PEM")
def a_certificate_is_missing() -> None:
    serving = Serving("127.0.0.1:0", certificate="/nowhere.crt", private_key="/nowhere.key")
    with application(cluster=FakeCluster({"in": 1, "out": 1}), serve=serving):
        pass
