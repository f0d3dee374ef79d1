"""Settings of internal topics that would change what is restored are refused where they stand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import TopologyError
from logstate.contracts.internal_topic_config import problems_of_all
from logstate.topology.declaring.windows import TumblingWindows
from logstate.topology.dsl.builder import StreamsBuilder
from logstate.topology.dsl.materialized import Materialized
from logstate.topology.processor.processor_stores import key_value_store, window_store

HOUR = timedelta(hours=1)


def of_all(config: Any, *, repartitions: bool = True, kept_ms: int | None = None) -> list[str]:
    return list(problems_of_all(config, repartitions=repartitions, kept_ms=kept_ms))


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"segment.bytes": "52428800", "min.insync.replicas": "2", "compression.type": "zstd"},
        {"message.timestamp.type": "CreateTime", "retention.ms": "-1"},
        {"confluent.placement.constraints": "{}"},  # brokers judge what is merely unknown
    ],
)
def test_what_may_be_said_of_all_topics(config: Any) -> None:
    assert of_all(config, kept_ms=5) == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (5, "must be a dict"),
        ([("a", "b")], "must be a dict"),
        ({5: "5"}, "the name of a setting is text"),
        ({"segment.bytes": 5}, "must be text, as brokers have it; got 5 (int). Write '5'"),
        ({"preallocate": True}, "Write 'true'"),
        ({"min.cleanable.dirty.ratio": 0.5}, "Write '0.5'"),
        ({"segment.ms": None}, "got None"),
        ({"segment.ms": "1 day"}, "must be a whole number as text"),
        ({"message.timestamp.type": "LogAppendTime"}, "must be 'CreateTime'; got 'LogAppendTime'"),
        ({"cleanup.policy": "delete"}, "sets it for each internal topic"),
        ({"cleanup.policy": "compact"}, "sets it for each internal topic"),
        ({"cleanup.polcy": "compact"}, "Did you mean 'cleanup.policy'?"),
        ({"retention.ms": "60000"}, "repartition topics too"),
        ({"retention.bytes": "60000"}, "repartition topics too"),
    ],
)
def test_what_may_not_be_said_of_all_topics(config: Any, message: str) -> None:
    (problem,) = of_all(config)
    assert message in problem


def test_retention_is_refused_where_it_takes_something_away() -> None:
    day = {"retention.ms": "86400000"}
    assert of_all(day, repartitions=False) == []
    assert of_all(day, repartitions=False, kept_ms=86_400_000) == []
    assert "windowed stores" in of_all(day, repartitions=False, kept_ms=86_400_001)[0]
    assert "windowed" in of_all({"retention.bytes": "1"}, repartitions=False, kept_ms=1)[0]


REFUSED = [
    ({"message.timestamp.type": "LogAppendTime"}, "must be 'CreateTime'"),
    ({"segment.bytes": 5}, "Write '5'"),
    ({"cleanup.policy": ["compact"]}, "Write 'compact'"),
    ({"cleanup.polcy": "compact"}, "Did you mean"),
]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        *REFUSED,
        ({"cleanup.policy": "delete"}, "leave the changelog by their tombstones"),
        ({"cleanup.policy": "compact,delete"}, "leave the changelog by their tombstones"),
    ],
)
def test_what_may_not_be_said_of_the_changelog_of_a_table(config: Any, message: str) -> None:
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match="store 'n'") as refused:
        builder.stream("in", value=str).group_by_key().count(
            store=Materialized("n", changelog_config=config)
        )
    assert message in str(refused.value)
    assert f"{__name__.rpartition('.')[2]}.py:" in str(refused.value)  # where it was declared
    with pytest.raises(TopologyError, match="store 'n'"):
        key_value_store("n", str, int, changelog_config=config)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        *REFUSED,
        ({"cleanup.policy": "compact"}, "'compact,delete' or 'delete'"),
        ({"retention.ms": "3599999"}, "keeps its rows for 3600000 ms"),
        ({"retention.bytes": "5"}, "missing after a restore"),
    ],
)
def test_what_may_not_be_said_of_the_changelog_of_windows(config: Any, message: str) -> None:
    with pytest.raises(TopologyError, match="store 'w'") as refused:
        window_store("w", str, int, size=HOUR, retention=HOUR, changelog_config=config)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "config",
    [
        {"cleanup.policy": "delete"},
        {"cleanup.policy": "delete, compact"},
        {"retention.ms": "3600000"},
    ],
)
def test_what_may_be_said_of_the_changelog_of_windows(config: Any) -> None:
    spec = window_store("w", str, int, size=HOUR, retention=HOUR, changelog_config=config)
    assert spec.changelog_config == config


@pytest.mark.parametrize("config", [5, [("a", "b")], "retention.ms=5"])
def test_a_configuration_is_a_dict(config: Any) -> None:
    builder = StreamsBuilder()
    windowed = (
        builder.stream("in", value=str).group_by_key().windowed_by(TumblingWindows(size=HOUR))
    )
    with pytest.raises(TopologyError, match="must be a dict"):
        windowed.count(store=Materialized("n", changelog_config=config))
