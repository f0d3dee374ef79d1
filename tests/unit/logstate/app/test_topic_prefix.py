"""Two environments of one program on one cluster, on the fake cluster."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.app.instance.states import Lifecycle
from logstate.app.instance.worker_processes import StartCommand
from logstate.app.settings import Settings
from logstate.app.worker_main import new_worker, program
from logstate.contracts.errors import ConfigError, TopicError, TopologyError
from logstate.task.error_handlers import ErrorHandlers, dead_letter
from logstate.topology import StreamsBuilder, Topology
from tests.patience import PATIENCE_S
from tests.unhurried import unhurried

ENVIRONMENTS = ("staging.", "production.")


def counting() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("lines", key=str, value=int)
    counts = words.group_by(lambda _, word: word, name="words", key=int).count(store="counts")
    counts.to_stream().to(lambda word, count: "even" if word % 2 == 0 else "odd")
    return builder.build()


def application(prefix: str, tmp_path: Path, **options: Any) -> Application:
    name = prefix.strip(".")
    return Application(
        counting(),
        **{
            "application_id": f"{name}-counts",
            "bootstrap": "fake:9092",
            "state_dir": tmp_path / name,
            "commit_interval": timedelta(milliseconds=10),
            "topic_prefix": prefix,
            "error_handlers": ErrorHandlers(
                deserialization=dead_letter, dead_letter_topic="letters"
            ),
            **options,
        },
    )


def number(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def test_each_environment_reads_and_writes_its_own_topics(tmp_path: Path) -> None:
    names = ("lines", "even", "odd", "letters")
    cluster = unhurried({prefix + name: 1 for prefix in ENVIRONMENTS for name in names})
    for count, prefix in enumerate(ENVIRONMENTS, 1):
        for word in (1, 2) * count:
            cluster.produce(f"{prefix}lines", b"k", number(word), timestamp=1)
        cluster.produce(f"{prefix}lines", prefix.encode(), b"no number", timestamp=1)
    first, second = (application(one, tmp_path, cluster=cluster) for one in ENVIRONMENTS)
    with first, second:
        for count, prefix in enumerate(ENVIRONMENTS, 1):
            cluster.wait_for_records(f"{prefix}even", count, PATIENCE_S)
            cluster.wait_for_records(f"{prefix}odd", count, PATIENCE_S)
            cluster.wait_for_records(f"{prefix}letters", 1, PATIENCE_S)
        assert first.topology.describe() != second.topology.describe()
    for count, prefix in enumerate(ENVIRONMENTS, 1):
        even = [record.value() for record in cluster.records(f"{prefix}even")]
        assert even == [number(one) for one in range(1, count + 1)]
        (letter,) = cluster.records(f"{prefix}letters")
        assert letter.key() == prefix.encode()
        headers = dict(letter.headers() or ())
        assert headers["__streams.errors.topic"] == f"{prefix}lines".encode()
    own = [name for name in cluster.admin().topic_names() if name.startswith("staging-")]
    assert sorted(own) == [
        "staging-counts-counts-changelog",
        "staging-counts-cuts",
        "staging-counts-logstate-snapshots",
        "staging-counts-words-repartition",
    ]


def test_a_start_names_the_missing_topic_of_the_environment(tmp_path: Path) -> None:
    cluster = unhurried({"lines": 1, "staging.lines": 1, "even": 1, "odd": 1, "letters": 1})
    with pytest.raises(TopicError, match=r"dead letter topic 'staging\.letters': the topic"):
        application("staging.", tmp_path, cluster=cluster).start()


@pytest.mark.parametrize("prefix", ["sta ging.", "über", None, b"staging.", "a" * 249])
def test_an_invalid_prefix_is_refused_with_the_other_problems(prefix: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as info:
        application("x", tmp_path, topic_prefix=prefix, workers=0)
    problems = info.value.problems
    assert len(problems) == 2
    assert any("topic_prefix becomes the beginning of the names of topics" in p for p in problems)


def test_a_prefix_that_is_too_long_for_a_topic_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="topic 'lines' has no valid name"):
        application("x", tmp_path, topic_prefix="p" * 245)
    with pytest.raises(ConfigError, match="dead_letter_topic must be the name of a topic"):
        application("x", tmp_path, topic_prefix="p" * 243)


def test_a_worker_process_reads_the_topics_of_its_environment(tmp_path: Path) -> None:
    settings = Settings(
        topology=counting(),
        application_id="shop",
        bootstrap="localhost:9092",
        state_dir=tmp_path,
        topic_prefix="staging.",
        error_handlers=ErrorHandlers(dead_letter_topic="letters"),
    ).checked()
    made = program(counting, settings.prefixed(), tmp_path)
    order = StartCommand(0, False, {}, made)
    worker = new_worker(order, Lifecycle(), lambda progress: None)
    worker.release()
    settings = worker._settings
    assert settings.handlers.dead_letter_topic == "staging.letters"
    read = [ref.name for ref in settings.topology.sub_topologies[0].source_topics]
    assert read == ["staging.lines"]
