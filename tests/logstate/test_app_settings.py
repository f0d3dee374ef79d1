"""Settings of an Application: every problem at once, before anything is opened."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from logstate.app import Application
from logstate.app_settings import AppSettings, StateWrites
from logstate.contracts.compatibility import Decisions
from logstate.contracts.errors import ConfigError
from logstate.kafka.client_settings import ClientSettings
from logstate.task.error_handlers import ErrorHandlers
from tests.logstate.flows import counted
from tests.logstate.task.task_bench import topology_of

GOOD: dict[str, Any] = {
    "topology": topology_of(counted),
    "bootstrap": "localhost:9092",
    "guarantee": "exactly_once",
    "commit_interval": timedelta(milliseconds=100),
    "writes": StateWrites(checkpoint_bytes=1),
    "offset_reset": "earliest",
    "group_protocol": "consumer",
    "clients": ClientSettings({"security.protocol": "SSL"}),
    "decisions": Decisions(),
    "application_id": "app",
    "replication_factor": -1,
    "topic_config": {},
    "static_membership": False,
    "slot": 0,
    "handlers": ErrorHandlers(),
    "start_timeout": None,
}


def check(**changes: Any) -> None:
    AppSettings(**{**GOOD, **changes}).checked()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"guarantee": "at_least_once"},
        {"writes": StateWrites(changelog="update")},
        {"group_protocol": "classic"},
        {"offset_reset": "latest"},
        {"offset_reset": "none"},
        {"offset_reset": timedelta(hours=1)},
        {"commit_interval": timedelta(milliseconds=1)},
        {"commit_interval": timedelta(minutes=10)},
        {"writes": StateWrites(timedelta(0))},
        {"clients": ClientSettings()},
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
        (
            {"writes": StateWrites(changelog=cast("Any", "all"))},
            "changelog_writes must be 'commit' or 'update'; got 'all'",
        ),
        ({"group_protocol": "new"}, "group_protocol must be 'consumer' or 'classic'; got 'new'"),
        ({"offset_reset": "lates"}, "offset_reset must be 'earliest', 'latest'.*got 'lates'"),
        (
            {"commit_interval": timedelta(microseconds=999)},
            "commit_interval must be at least 0:00:00.001",
        ),
        ({"commit_interval": 5}, r"commit_interval must be a timedelta; got 5"),
        ({"writes": StateWrites(timedelta(seconds=-1))}, "checkpoint_interval must be at least 0"),
        ({"writes": StateWrites(checkpoint_bytes=0)}, "checkpoint_bytes must be at least 1; got 0"),
        (
            {"clients": ClientSettings({"group.id": "mine"})},
            r"kafka\['group.id'\] belongs to the engine",
        ),
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
            clients=ClientSettings({"group.id": "hunter2"}, producer={"acks": "hunter2"}),
        )
    assert len(caught.value.problems) == 4
    assert str(caught.value).startswith("4 problems with the configuration:")
    assert "hunter2" not in str(caught.value)


def test_transactions_outlive_the_commit_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "logstate.kafka.cluster.KafkaTransactionalProducer",
        lambda config, **options: made.append(config),
    )
    for slot, seconds in enumerate((0.1, 60)):
        app = Application(
            GOOD["topology"],
            application_id="app",
            bootstrap=GOOD["bootstrap"],
            state_dir=tmp_path,
            slot=slot,
            commit_interval=timedelta(seconds=seconds),
        )
        app._workers.cluster.transactional_producer("app-0")
        app.close()
    assert [config["transaction.timeout.ms"] for config in made] == [10_100, 70_000]
