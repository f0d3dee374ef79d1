"""Settings of an Application: every problem at once, before anything is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from datetime import timedelta
from inspect import signature
from pathlib import Path
from typing import Any, cast

import pytest

from logstate.app.application import Application
from logstate.app.settings import Settings
from logstate.changelog.directory import StateDirectory
from logstate.contracts.errors import ConfigError
from logstate.contracts.rocksdb_config import RocksDbConfig
from logstate.contracts.serving import Serving
from logstate.contracts.standby_settings import StandbySettings
from logstate.task.error_handlers import ErrorHandlers, dead_letter, retry, skip
from logstate.testing import FakeCluster
from tests.unit.logstate.flows import counted
from tests.unit.logstate.task.task_bench import topology_of

GOOD: dict[str, Any] = {
    "topology": topology_of(counted),
    "application_id": "app",
    "bootstrap": "localhost:9092",
    "state_dir": "state",
    "kafka": {"security.protocol": "SSL"},
}


def test_an_application_takes_every_setting_with_its_default() -> None:
    arguments = signature(Application).parameters
    assert set(arguments) == {each.name for each in fields(Settings)} | {"cluster", "clock"}
    for each in fields(Settings):
        if each.default is not MISSING:
            assert arguments[each.name].default == each.default, each.name


def test_a_worker_gets_each_setting_of_its_name_or_in_milliseconds() -> None:
    given = Settings(
        **GOOD,
        commit_interval=timedelta(seconds=7),
        start_timeout=timedelta(seconds=8),
        aborts_max=9,
        max_task_idle=None,
        workers=4,
        cache_bytes=400,
        rocksdb=RocksDbConfig(cache_bytes=8 << 20),
        static_membership=True,
    )
    config = given.worker_config("one")
    assert (config.commit_interval_ms, config.start_timeout_ms) == (7_000, 8_000)
    assert (config.aborts_max, config.cache_bytes) == (9, 100)
    assert (config.transactional_id, config.instance_id) == ("app-one-0", "app-one")
    assert config.max_task_idle_ms is None
    assert config.rocksdb == RocksDbConfig(cache_bytes=2 << 20)
    assert config.application_config["commit_interval"] == timedelta(seconds=7)
    assert "kafka" not in config.application_config  # it may contain secrets


def check(**changes: Any) -> None:
    Settings(**{**GOOD, **changes}).checked()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"guarantee": "at_least_once"},
        {"changelog_writes": "update"},
        {"group_protocol": "classic"},
        {"offset_reset": "latest"},
        {"offset_reset": "none"},
        {"on_state_loss": "continue", "on_data_loss": "continue", "aborts_max": 0},
        {"offset_reset": timedelta(hours=1)},
        {"commit_interval": timedelta(milliseconds=1)},
        {"commit_interval": timedelta(minutes=10)},
        {"checkpoint_interval": timedelta(0)},
        {"kafka": None},
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
            {"changelog_writes": cast("Any", "all")},
            "changelog_writes must be 'commit' or 'update'; got 'all'",
        ),
        ({"group_protocol": "new"}, "group_protocol must be 'consumer' or 'classic'; got 'new'"),
        (
            {"on_state_loss": cast("Any", "ignore")},
            "on_state_loss must be 'fail' or 'continue'; got 'ignore'",
        ),
        (
            {"on_data_loss": cast("Any", "ignore")},
            "on_data_loss must be 'fail' or 'continue'; got 'ignore'",
        ),
        ({"aborts_max": -1}, "aborts_max must be at least 0; got -1"),
        ({"offset_reset": "lates"}, "offset_reset must be 'earliest', 'latest'.*got 'lates'"),
        (
            {"commit_interval": timedelta(microseconds=999)},
            "commit_interval must be at least 0:00:00.001",
        ),
        (
            {"window_emit_interval": timedelta(seconds=-1)},
            "window_emit_interval must be at least 0:00:00",
        ),
        ({"outer_join_emit_interval": 5}, "outer_join_emit_interval must be a timedelta; got 5"),
        ({"commit_interval": 5}, r"commit_interval must be a timedelta; got 5"),
        ({"checkpoint_interval": timedelta(seconds=-1)}, "checkpoint_interval must be at least 0"),
        ({"checkpoint_bytes": 0}, "checkpoint_bytes must be at least 1; got 0"),
        ({"bootstrap": ["a:1", "b:2"]}, "bootstrap is one text with commas.*Write 'a:1,b:2'"),
        ({"application_id": "my app"}, "application_id becomes part of the names.*got 'my app'"),
        ({"offset_reset": timedelta(days=-1)}, "offset_reset is a duration back from now"),
        ({"replication_factor": "1"}, "replication_factor must be a whole number.*Write 1"),
        ({"replication_factor": 0}, "replication_factor must be from 1 to 32767, or -1"),
        ({"replication_factor": True}, "replication_factor must be a whole number"),
        ({"static_membership": "no"}, "static_membership must be True or False; got 'no'"),
        (
            {"log_summary_interval": timedelta(0)},
            "log_summary_interval must be 'growing', a timedelta above 0, or None; got",
        ),
        ({"log_summary_interval": 120}, r"got 120 \(int\). Write timedelta\(minutes=...\)"),
        ({"slot": -1}, "slot must be at least 0; got -1"),
        ({"slot": "x"}, "slot must be a whole number, at least 0; got 'x'"),
        ({"workers": True}, "workers must be a whole number"),
        ({"rocksdb": {"cache_bytes": 1}}, r"rocksdb must be RocksDbConfig\(\.\.\.\)"),
        (
            {"rocksdb": RocksDbConfig(cache_bytes=9)},
            "rocksdb: cache_bytes must be at least 1048576",
        ),
        ({"rocksdb": RocksDbConfig(compression="lz5")}, "rocksdb: compression must be .lz4., "),  # type: ignore[arg-type]
        ({"rocksdb": RocksDbConfig(configure=7)}, "rocksdb: configure must be a function"),  # type: ignore[arg-type]
        ({"cache_bytes": -1}, "cache_bytes must be at least 0; got -1"),
        ({"state_cleanup_delay": cast("Any", 600)}, "state_cleanup_delay must be a time"),
        ({"checkpoint_bytes": True}, "checkpoint_bytes must be a whole number"),
        ({"start_timeout": timedelta(seconds=-1)}, "start_timeout must be at least 0"),
        ({"restore_listener": 5}, "restore_listener must be a function"),
        ({"serve": 5}, "serve must be 'host:port'.*got 5"),
        ({"serve": Serving(bind=cast("Any", 5))}, "bind of Serving must be text; got 5"),
        (
            {"serve": Serving(bind="127.0.0.1:1", timeout=cast("Any", 5))},
            "timeout of Serving must be a timedelta; got 5",
        ),
        (
            {"standby_replicas": StandbySettings(warm_up_timeout=cast("Any", 5))},
            "warm_up_timeout of standbys must be a timedelta; got 5",
        ),
        ({"topic_config": {"retention.ms": 5}}, "must be text, as brokers have it"),
        ({"topic_config": {"cleanup.policy": "delete"}}, "sets it for each internal topic"),
        ({"forget": [5]}, "forget must be a set of names"),
        ({"kafka": 5}, "kafka must be a dict.*got int"),
        (
            {"kafka": {"message.max.bytes": "big"}},
            r"kafka\['message.max.bytes'\] must be a number, found text that is none",
        ),
        (
            {"kafka": {"linger.ms": True}},
            r"kafka\['linger.ms'\] must be a number, found bool",
        ),
        (
            {"kafka": {"group.id": "mine"}},
            r"kafka\['group.id'\] belongs to the engine",
        ),
    ],
    ids=str,
)
def test_what_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check(**changes)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "without blanks around it; got ''"),
        (" ", "without blanks"),
        ("/x ", "without blanks"),
        ("\0x", r"'\\x00x' contains a NUL character"),
        (None, "must be a path; got None"),
        (5, "must be a path; got 5"),
        (b"/x", "must be a path; got b'/x'"),
        ("file:///var/lib/x", "not an address"),
        (Path("file:///var/lib/x"), "not an address"),
        ("s3://bucket/x", "not an address"),
        ("$HOME/state", r"os.path.expandvars\('\$HOME/state'\)"),
        ("%APPDATA%/state", "has a variable in it"),
        ("~nobody-is-called-so/x", "cannot be resolved"),
    ],
)
def test_what_is_no_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        check(state_dir=given)
    with pytest.raises(ConfigError, match=message):
        StateDirectory(given, "app")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("~/x", "home/x"),
        ("~", "home"),
        (".", ""),
        ("x y/é", "x y/é"),
        (Path("x"), "x"),
        ("a:b", "a:b"),
    ],
    ids=str,
)
def test_a_state_directory_is_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, expected: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with StateDirectory(given, "app") as directory:
        assert directory.path == tmp_path / expected / "app"


def test_a_relative_directory_is_the_one_of_the_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = Application(
        GOOD["topology"],
        application_id="app",
        bootstrap="f:1",
        state_dir="state",
        cluster=FakeCluster({"in": 1, "out": 1}),
    )
    app.close()
    monkeypatch.chdir("/")
    app.clean_up()
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


def test_a_handler_is_no_handlers() -> None:
    with pytest.raises(ConfigError, match=r"error_handlers must be ErrorHandlers.*function skip"):
        check(error_handlers=skip)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ErrorHandlers(processing=cast("Any", "skip")), "processing handler must be fail"),
        (lambda: ErrorHandlers(processing=cast("Any", retry)), r"Write retry\(3, backoff="),
        (lambda: ErrorHandlers(production=cast("Any", lambda: None)), "failed record alone"),
        (lambda: ErrorHandlers(production=dead_letter), "no dead letter topic"),
        (lambda: ErrorHandlers(dead_letter_topic=cast("Any", 5)), "dead_letter_topic must be"),
        (lambda: ErrorHandlers(on_skip=cast("Any", "kep")), "on_skip must be 'rollback' or 'keep'"),
        (lambda: retry(0, backoff=timedelta(1)), "attempts of retry.* at least 1; got 0"),
        (lambda: retry(3, backoff=cast("Any", 5)), "backoff of retry.* must be a timedelta"),
        (lambda: retry(3, backoff=timedelta(1), then=cast("Any", "skip")), "then= of retry"),
    ],
)
def test_handlers_that_cannot_be_asked(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_every_problem_is_listed_and_no_value_of_the_clients_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        check(
            bootstrap="",
            guarantee="?",
            kafka={"group.id": "hunter2"},
            producer={"acks": "hunter2"},
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
