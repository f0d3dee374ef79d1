"""Settings of an Application: every problem at once, before anything is opened."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.app_settings import check_settings
from logstate.contracts.errors import ConfigError
from tests.logstate.flows import counted
from tests.logstate.task.task_bench import topology_of

GOOD: dict[str, Any] = {
    "topology": topology_of(counted),
    "bootstrap": "localhost:9092",
    "guarantee": "exactly_once",
    "commit_interval": timedelta(milliseconds=100),
    "checkpoint_interval": timedelta(seconds=10),
    "checkpoint_bytes": 1,
    "offset_reset": "earliest",
    "changelog_writes": "commit",
    "group_protocol": "consumer",
    "kafka": {"security.protocol": "SSL"},
}


def check(**changes: Any) -> None:
    settings = {**GOOD, **changes}
    check_settings(settings.pop("topology"), **settings)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"guarantee": "at_least_once"},
        {"changelog_writes": "update"},
        {"group_protocol": "classic"},
        {"offset_reset": "latest"},
        {"offset_reset": "none"},
        {"offset_reset": timedelta(hours=1)},
        {"commit_interval": timedelta(milliseconds=1)},
        {"checkpoint_interval": timedelta(0)},
        {"kafka": {}},
    ],
    ids=str,
)
def test_what_is_allowed(changes: dict[str, Any]) -> None:
    check(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"topology": "orders"}, r"what StreamsBuilder.build\(\) returns; got str"),
        ({"bootstrap": ""}, "bootstrap is empty"),
        ({"guarantee": "exactly-once"}, "guarantee must be 'exactly_once' or.*got 'exactly-once'"),
        ({"changelog_writes": "all"}, "changelog_writes must be 'commit' or 'update'; got 'all'"),
        ({"group_protocol": "new"}, "group_protocol must be 'consumer' or 'classic'; got 'new'"),
        ({"offset_reset": "lates"}, "offset_reset must be 'earliest', 'latest'.*got 'lates'"),
        (
            {"commit_interval": timedelta(microseconds=999)},
            "commit_interval must be at least 0:00:00.001",
        ),
        ({"commit_interval": 5}, r"commit_interval must be a timedelta; got 5"),
        ({"checkpoint_interval": timedelta(seconds=-1)}, "checkpoint_interval must be at least 0"),
        ({"checkpoint_bytes": 0}, "checkpoint_bytes must be at least 1; got 0"),
        ({"kafka": {"group.id": "mine"}}, r"kafka\['group.id'\] belongs to the engine"),
    ],
    ids=str,
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check(**changes)


def test_every_problem_is_listed_and_no_value_of_the_clients_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        check(
            bootstrap="",
            guarantee="?",
            kafka={"group.id": "hunter2", "acks": "hunter2"},
        )
    assert len(caught.value.problems) == 4
    assert str(caught.value).startswith("4 problems with the configuration:")
    assert "hunter2" not in str(caught.value)
