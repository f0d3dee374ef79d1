"""The wait until an application has processed what its inputs contained."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.contracts.errors import LogstateError, ProcessingError
from logstate.contracts.records import ProducedRecord
from logstate.testing import FakeCluster
from logstate.topology import StreamsBuilder
from tests.patience import PATIENCE_S, until
from tests.unhurried import unhurried

LONG = timedelta(seconds=PATIENCE_S)
SHORT = timedelta(milliseconds=300)
Declare = Callable[[StreamsBuilder], object]


def counted(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).group_by_key().count(store="counts")


def in_two_steps(builder: StreamsBuilder) -> None:
    """Two repartition topics, one after the other: the length of a word, and of these."""
    words = builder.stream("in", key=str, value=str)
    words.group_by(lambda _, word: word, name="by-word", key=str).count(store="words")
    lengths = words.select_key(lambda _, word: str(len(word)), key=str)
    first = lengths.repartition(name="lengths", key=str, value=str)
    second = first.select_key(lambda _, __: "all", key=str).repartition(name="all", value=str)
    second.group_by_key().count(store="counts")


def of_another_table(builder: StreamsBuilder) -> None:
    """A foreign-key join: its two topics form a cycle between sub-topologies."""
    left = builder.table("left", key=str, value=str, store="left-rows")
    right = builder.table("in", key=str, value=str, store="right-rows")
    left.join(
        right,
        lambda mine, other: f"{mine}{other}",
        foreign_key=lambda value: value,
        name="fk",
        value=str,
        store="counts",
    )


def instance(
    cluster: FakeCluster, state_dir: Path, declare: Declare = counted, **settings: Any
) -> Application:
    builder = StreamsBuilder()
    declare(builder)
    return Application(
        builder.build(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=10),
        cluster=cluster,
        **settings,
    )


def send(cluster: FakeCluster, words: list[str], partitions: int = 2) -> None:
    for at, word in enumerate(words):
        cluster.produce(
            "in", word.encode(), word.encode(), partition=at % partitions, timestamp=at + 1
        )


def rows(app: Application, store: str = "counts") -> dict[str, Any]:
    return {key: row.value for key, row in app.store(store).all()}


def test_the_store_has_every_record_that_was_there_at_the_call(tmp_path: Path) -> None:
    cluster = unhurried({"in": 2})
    with instance(cluster, tmp_path) as app:
        for number in range(1, 6):
            send(cluster, ["a", "b"])
            app.wait_until_caught_up(LONG)
            assert rows(app) == {"a": number, "b": number}
    with instance(cluster, tmp_path) as app:  # nothing new
        app.wait_until_caught_up(LONG)
        assert rows(app) == {"a": 5, "b": 5}


def test_records_that_pass_two_repartition_topics_are_waited_for(tmp_path: Path) -> None:
    cluster = unhurried({"in": 2})
    with instance(cluster, tmp_path, in_two_steps) as app:
        for number in range(1, 6):
            send(cluster, ["a", "bb", "ccc", "dddd"])
            app.wait_until_caught_up(LONG)
            assert rows(app) == {"all": 4 * number}
            assert rows(app, "words") == {"a": number, "bb": number, "ccc": number, "dddd": number}


def test_the_answers_of_a_foreign_key_join_are_waited_for(tmp_path: Path) -> None:
    cluster = unhurried({"left": 2, "in": 2})
    with instance(cluster, tmp_path, of_another_table) as app:
        for number in range(5):
            cluster.produce("left", b"k%d" % number, b"f", timestamp=1)
            cluster.produce("in", b"f", b"%d" % number, timestamp=number + 1)
            app.wait_until_caught_up(LONG)
            assert rows(app) == {f"k{at}": f"f{number}" for at in range(number + 1)}


def test_the_partitions_of_the_other_instances_count_too(tmp_path: Path) -> None:
    cluster = unhurried({"in": 2})
    with instance(cluster, tmp_path / "a") as one, instance(cluster, tmp_path / "b") as two:
        until(lambda: len(one.tasks()) == len(two.tasks()) == 1)
        send(cluster, ["a", "b"] * 20)
        one.wait_until_caught_up(LONG)
        two.wait_until_running(LONG)
        assert rows(one) | rows(two) == {"a": 20, "b": 20}
        two.pause()
        until(lambda: two.state.value == "paused")
        send(cluster, ["a", "b"])
        with pytest.raises(TimeoutError, match=r"in-\d \(not of this instance\): lag 1, at offset"):
            one.wait_until_caught_up(SHORT)


def test_a_timeout_names_the_partitions_their_lag_and_what_to_do(tmp_path: Path) -> None:
    cluster = unhurried({"in": 2})
    send(cluster, ["a", "b"])
    with instance(cluster, tmp_path) as app:
        app.wait_until_caught_up(LONG)
        app.pause()
        until(lambda: app.state.value == "paused")
        app.wait_until_caught_up(LONG)  # a paused application has nothing to do
        send(cluster, ["a", "b", "c"])
        with pytest.raises(TimeoutError) as raised:
            app.wait_until_caught_up(SHORT)
        assert str(raised.value) == (
            "application 'app' has not caught up after 0:00:00.300000: in-0 (task 0_0): lag 2, at"
            " offset 1 of 3; in-1 (task 0_1): lag 1, at offset 1 of 2. It is paused: call resume()"
        )
        app.resume()
        app.wait_until_caught_up(LONG)
        assert rows(app) == {"a": 2, "b": 2, "c": 1}


def test_markers_and_aborted_records_at_the_end_of_an_input_are_not_waited_for(
    tmp_path: Path,
) -> None:
    cluster = unhurried({"in": 1})
    producer = cluster.transactional_producer("other")
    producer.init_transactions()

    def write(*values: bytes, then: str) -> None:
        producer.begin()
        producer.produce([ProducedRecord("in", 0, b"k", value, 1) for value in values])
        producer.flush()
        getattr(producer, then)()

    write(b"a", then="commit")
    with instance(cluster, tmp_path) as app:
        app.wait_until_caught_up(LONG)
        write(b"b", b"c", then="abort")
        app.wait_until_caught_up(LONG)
        write(b"d", then="commit")
        write(b"e", then="abort")
        app.wait_until_caught_up(LONG)
        assert rows(app) == {"k": 2}
        producer.begin()
        producer.produce([ProducedRecord("in", 0, b"k", b"open", 1)])
        producer.flush()
        app.wait_until_caught_up(LONG)
        producer.commit()
        app.wait_until_caught_up(LONG)
        assert rows(app) == {"k": 3}


def test_unreachable_brokers_do_not_prolong_the_wait_and_are_named(tmp_path: Path) -> None:
    cluster = unhurried({"in": 1})
    with instance(cluster, tmp_path) as app:
        app.wait_until_caught_up(LONG)
        held = threading.Event()

        class Held(FakeCluster):
            def admin(self) -> Any:
                held.wait(PATIENCE_S)
                return cluster.admin()

        app._cluster = Held({})
        with pytest.raises(TimeoutError, match="the brokers have not answered yet"):
            app.wait_until_caught_up(SHORT)
        held.set()


def test_the_error_that_stops_the_application_ends_the_wait(tmp_path: Path) -> None:
    def failing(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).map_values(int, value=int).to("out")

    cluster = unhurried({"in": 1, "out": 1})
    app = instance(cluster, tmp_path, failing).start()
    send(cluster, ["word"], 1)
    with pytest.raises(ProcessingError, match="invalid literal"):
        app.wait_until_caught_up(LONG)
    with pytest.raises(LogstateError, match="has ended; nothing runs"):
        app.wait_until_caught_up(LONG)
    app.close()


def test_an_application_that_was_not_started_says_so_in_the_timeout(tmp_path: Path) -> None:
    app = instance(unhurried({"in": 1}), tmp_path)
    with pytest.raises(TimeoutError, match=r"after 0:00:00: the application has not started"):
        app.wait_until_caught_up(timedelta(0))
    app.close()


def test_a_function_of_the_application_cannot_wait_for_itself(tmp_path: Path) -> None:
    refused: list[str] = []

    def waiting(builder: StreamsBuilder) -> None:
        def call(word: str) -> str:
            try:
                app.wait_until_caught_up()
            except LogstateError as error:
                refused.append(str(error))
            return word

        builder.stream("in", key=str, value=str).map_values(call, value=str).to("out")

    cluster = unhurried({"in": 1, "out": 1})
    app = instance(cluster, tmp_path, waiting)
    with app, suppress(TimeoutError):
        send(cluster, ["word"], 1)
        app.wait_until_caught_up(LONG)
    assert "wait_until_caught_up() of application 'app' was called in the thread" in refused[0]
