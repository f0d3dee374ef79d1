"""Who has what, asked of any instance of an application."""

from __future__ import annotations

from pathlib import Path

import pytest

from logstate.contracts.errors import (
    ConfigError,
    LogstateError,
    SerdeError,
    StoreUnavailableError,
)
from logstate.contracts.partitioner import partition_of
from logstate.contracts.serving import Serving
from logstate.contracts.topic_names import instances_topic
from tests.unhurried import no_silence  # noqa: F401  for this module
from tests.unit.logstate.instances import (
    KEYS,
    PARTITIONS,
    cluster_with,
    instance,
    shared,
    until,
)


def test_every_instance_knows_who_has_a_key(tmp_path: Path) -> None:
    cluster = cluster_with()
    first = instance(cluster, tmp_path / "a", serve=Serving(advertised="http://a:1/"))
    second = instance(cluster, tmp_path / "b", serve=Serving(advertised="http://b:1"))
    with first:
        with second:
            for app in (first, second):
                until(app, shared(app, 2))
                hosts = {one.host for one in app.metadata_for_store("counts")}
                assert hosts == {"http://a:1", "http://b:1"}
                for key in KEYS:
                    found = app.metadata_for_key("counts", key)
                    assert found.partition == partition_of(key.encode(), PARTITIONS)
                    assert found.task.endswith(f"_{found.partition}")
                    owner = first if found.active_host == "http://a:1" else second
                    assert found.partition in owner.store("counts").partitions
                hosts = {one.host for one in app.metadata_for_store("names")}
                assert hosts == {"http://a:1", "http://b:1"}, "of a global store all have all"
                assert app.metadata_for_key("names", "k1").active_host in hosts
        until(first, shared(first, 1))  # the other one has said goodbye
        assert {first.metadata_for_key("counts", key).active_host for key in KEYS} == {"http://a:1"}
    assert [r.value() for r in cluster.records(instances_topic("app"))][-1] is None


def test_a_question_that_cannot_be_answered_says_why(tmp_path: Path) -> None:
    cluster = cluster_with()
    with instance(cluster, tmp_path, serve=Serving(advertised="http://a:1")) as app:
        until(app, shared(app, 1))
        with pytest.raises(StoreUnavailableError, match="there is no store 'count'; the topology"):
            app.metadata_for_key("count", "k1")
        with pytest.raises(
            SerdeError, match="store 'counts': the key 7 does not fit its key serde"
        ):
            app.metadata_for_key("counts", 7)
        with pytest.raises(StoreUnavailableError, match="no instance claims task 0_99"):
            app.metadata_for_key("counts", "k1", partition=99)


def test_an_instance_without_an_address_is_told_what_it_lacks(tmp_path: Path) -> None:
    cluster = cluster_with({})
    with instance(cluster, tmp_path) as app:
        with pytest.raises(LogstateError, match=r"needs the directory .*give Application\(serve="):
            app.all_instances()
        assert instances_topic("app") not in cluster.admin().topic_names()


@pytest.mark.parametrize(
    ("serve", "problem"),
    [
        ("8080", "serve must be 'host:port'"),
        ("10.0.0.7:8080", "accepts connections from other machines without a token"),
        (Serving("0.0.0.0:8080", token="t"), "give advertised='http://this-host:8080'"),
        (
            Serving("[::1]:0", token="t\n"),
            "token of Serving must be ASCII text without line breaks",
        ),
        (Serving("[::1]:0", token="pläne"), "token of Serving must be ASCII text"),
        (Serving(), "needs bind= or, if it is mounted, advertised="),
        (Serving(advertised="a:1"), "must be the address"),
        (Serving("[::1]:0", certificate="c.pem"), "must be given together"),
        (Serving("localhost:1", page_rows=0), "page_rows must be at least 1"),
    ],
)
def test_an_address_that_cannot_work_is_refused(
    tmp_path: Path, serve: str | Serving, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        instance(cluster_with({}), tmp_path, serve=serve)


def test_a_token_is_not_shown() -> None:
    assert "hush" not in repr(Serving("localhost:1", token="hush"))
