"""One instance fails and asks all others of the application to stop."""

from __future__ import annotations

from pathlib import Path
from weakref import WeakKeyDictionary

import pytest

from logstate import Application, ApplicationState, StreamsBuilder
from logstate.contracts.errors import ConfigError, LogstateError, ProcessingError
from logstate.contracts.serving import Serving
from logstate.contracts.topic_names import instances_topic
from logstate.testing import FakeCluster
from tests import patience
from tests.unhurried import no_silence  # noqa: F401  for this module
from tests.unit.logstate.instances import cluster_with, instance, shared, until

_failed: WeakKeyDictionary[FakeCluster, bool] = WeakKeyDictionary()


class Poisoned(Exception):
    """What the user's function raises."""


def failing(cluster: FakeCluster, path: Path, name: str, response: str) -> Application:
    """Fails at the record "poison", once: whoever gets its partition then goes on."""
    builder = StreamsBuilder()

    def read(value: str) -> str:
        if value == "poison" and not _failed.get(cluster):
            _failed[cluster] = True
            raise Poisoned(value)
        return value

    values = builder.stream("in", key=str, value=str).map_values(read, value=str)
    values.group_by_key().count(store="counts")
    return Application(
        builder.build(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=path,
        cluster=cluster,
        serve=Serving(advertised=f"http://{name}:1"),
        uncaught_exception_handler=lambda _: response,  # type: ignore[arg-type,return-value]
    )


def ended(app: Application) -> None:
    patience.until(lambda: app.state.is_over, lambda: str(app.state))


def test_all_others_commit_and_end_with_the_reason(tmp_path: Path) -> None:
    cluster = cluster_with()
    first = failing(cluster, tmp_path / "a", "a", "stop_application").start()
    second = failing(cluster, tmp_path / "b", "b", "stop_application").start()
    until(first, shared(first, 2))
    until(second, shared(second, 2))
    victim = first if 0 in first.store("counts").partitions else second
    other = second if victim is first else first
    cluster.produce("in", b"k", b"poison", partition=0, timestamp=1)
    ended(first)
    ended(second)
    with pytest.raises(ProcessingError, match="poison"):
        victim.close()
    with pytest.raises(
        LogstateError, match=r"requested that all instances .* stop, after .*poison"
    ):
        other.close()
    assert first.state is second.state is ApplicationState.ERROR
    # Its last words may come later than a stop waits for them.
    patience.until(lambda: cluster.records(instances_topic("app"))[-1].value() is None)


def test_who_starts_later_is_not_meant(tmp_path: Path) -> None:
    cluster = cluster_with()
    app = failing(cluster, tmp_path / "a", "a", "stop_application").start()
    until(app, shared(app, 1))
    cluster.produce("in", b"k", b"poison", partition=0, timestamp=1)
    ended(app)
    with pytest.raises(ProcessingError, match="poison"):
        app.close()
    serve = Serving(advertised="http://b:1")
    with instance(cluster, tmp_path / "b", serve=serve) as later:
        until(later, shared(later, 1))
        patience.until(lambda: later.state is ApplicationState.RUNNING)


def test_others_go_on_where_the_instance_alone_was_to_stop(tmp_path: Path) -> None:
    cluster = cluster_with()
    first = failing(cluster, tmp_path / "a", "a", "stop_instance").start()
    with instance(cluster, tmp_path / "b", serve=Serving(advertised="http://b:1")) as second:
        until(second, shared(second, 2))
        number = min(first.store("counts").partitions)
        cluster.produce("in", b"k", b"poison", partition=number, timestamp=1)
        ended(first)
        until(second, shared(second, 1))
        assert not second.state.is_over


def test_it_needs_instances_that_know_of_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs instances that know each other"):
        instance(cluster_with(), tmp_path, uncaught_exception_handler="stop_application")
