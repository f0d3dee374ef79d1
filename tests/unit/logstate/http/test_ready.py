"""Readiness over HTTP: its limits, the rows of other instances, and the time before a stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from logstate.app.application import Application
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.serving import Serving
from logstate.testing import FakeCluster
from tests import patience
from tests.unhurried import no_silence  # noqa: F401  for this module
from tests.unit.logstate.instances import KEYS, cluster_with, instance, send, shared, until

NO_DRAIN = Serving("127.0.0.1:0", drain=timedelta(0), timeout=timedelta(milliseconds=300))


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=patience.PATIENCE_S) as client:
        yield client


@pytest.fixture(scope="module")
def any_instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cluster = cluster_with({"k1": 1})
    with instance(cluster, tmp_path_factory.mktemp("any"), serve=NO_DRAIN) as app:
        yield host(app)


def host(app: Application) -> str:
    presence = app._presence
    assert presence is not None
    return presence.address


class Ready:
    """Asks an instance whether it is ready."""

    def __init__(self, client: httpx.Client, app: Application) -> None:
        self._client, self._host = client, host(app)

    def status(self, query: str = "") -> int:
        return self._client.get(f"{self._host}/ready{query}").status_code

    def reason(self, query: str = "") -> str:
        return str(self._client.get(f"{self._host}/ready{query}").json()["reason"])

    def until(self, query: str, status: int) -> None:
        patience.until(lambda: self.status(query) == status, lambda: self.reason(query))


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("?max_lag=-1", "max_lag must be at least 0"),
        ("?max_lag=ten", "max_lag must be a whole number"),
        ("?max_age=soon", "max_age must be a number of seconds, or a number with its unit"),
        ("?max_age=1d", "as 500ms, 30s, 5m or 1h; got '1d'"),
        ("?max_age=-1", "max_age must be a number of seconds"),
        ("?max_age=999999999999h", "max_age must be a number of seconds"),
        ("?max_ages=1", "Did you mean max_age=?"),
        ("?max_lag=1&max_lag=2", "max_lag= is given 2 times"),
    ],
)
def test_invalid_limits_are_refused(
    query: str, why: str, client: httpx.Client, any_instance: str
) -> None:
    found = client.get(f"{any_instance}/ready{query}")
    assert found.status_code == 400
    assert why in found.json()["error"]


def test_a_lag_counts_by_records_and_by_age_and_only_if_it_is_asked_for(
    client: httpx.Client, tmp_path: Path
) -> None:
    cluster = cluster_with({"k1": 1})
    with instance(cluster, tmp_path, serve=NO_DRAIN) as app:
        until(app, shared(app, 1))
        ready = Ready(client, app)
        ready.until("?max_lag=0&max_age=30", 200)
        app.pause()
        patience.until(lambda: app.state.value == "paused")
        for _ in range(3):
            send(cluster, "k1")
        ready.until("?max_lag=2", 503)
        assert ready.reason("?max_lag=2") == "its rows lack 3 input records, max_lag allows 2"
        assert ready.status("?max_lag=3") == 200
        ready.until("?max_age=100ms", 503)
        assert "max_age allows 0.1 s" in ready.reason("?max_age=100ms")
        assert ready.status("?max_age=1h") == 200
        assert ready.status() == 200
        assert not app.is_ready(max_lag=2)
        assert not app.is_ready(max_age=timedelta(milliseconds=100))
        key = f"{host(app)}/stores/counts/k1"
        assert client.get(key).json()["row"]["value"] == 1
        assert client.get(f"{key}?max_age=1h").json()["row"]["value"] == 1
        refused = client.get(f"{key}?max_age=100ms")
        assert refused.status_code == 503
        assert "max_age allows 0.1 s" in refused.json()["error"]
        with pytest.raises(StoreUnavailableError, match=r"max_age allows 0\.1 s"):
            app.store("counts", max_age=timedelta(milliseconds=100)).get("k1")
        app.resume()
        ready.until("?max_lag=0&max_age=30", 200)
        assert client.get(f"{key}?max_age=1h").json()["row"]["value"] == 4


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[FakeCluster, list[Application]]]:
    cluster = cluster_with(dict.fromkeys(KEYS, 1))
    with ExitStack() as stack:
        apps = [
            stack.enter_context(instance(cluster, tmp_path / name, serve=NO_DRAIN))
            for name in ("one", "two")
        ]
        for app in apps:
            until(app, shared(app, 2))
        yield cluster, apps


def test_the_lag_of_an_instance_counts_for_all_that_return_its_rows(
    two: tuple[FakeCluster, list[Application]], client: httpx.Client
) -> None:
    cluster, (one, other) = two
    ready = Ready(client, other)
    ready.until("?max_lag=0&max_age=30", 200)
    one.pause()
    patience.until(lambda: one.state.value == "paused")
    for key in KEYS:
        send(cluster, key)
    # The other one lacks its records too until it has processed them.
    lacking = f"the rows of {host(one)} lack "
    patience.until(lambda: ready.reason("?max_lag=0").startswith(lacking))
    patience.until(lambda: host(one) in ready.reason("?max_age=1"))
    assert (ready.status("?max_lag=0"), ready.status("?max_age=1")) == (503, 503)
    assert ready.status() == 200


def test_it_answers_until_a_load_balancer_has_noticed_that_it_stops(
    client: httpx.Client, tmp_path: Path
) -> None:
    cluster = cluster_with({"k1": 1})
    serve = Serving("127.0.0.1:0", drain=timedelta(hours=1))
    with instance(cluster, tmp_path, serve=serve) as app:
        until(app, shared(app, 1))
        ready = Ready(client, app)
        ready.until("", 200)
        app.stop()
        assert (ready.status(), ready.reason()) == (503, "it is stopping")
        assert client.get(f"{host(app)}/live").status_code == 200
        send(cluster, "k1")
        key = f"{host(app)}/stores/counts/k1"
        patience.until(lambda: client.get(key).json()["row"]["value"] == 2)
        app.close(timeout=timedelta(milliseconds=200))
        assert "has ended, because it was stopped" in app.is_ready().reason


def test_an_instance_whose_readiness_nobody_asks_for_stops_at_once(tmp_path: Path) -> None:
    serve = Serving("127.0.0.1:0", drain=timedelta(hours=1))
    with instance(cluster_with({"k1": 1}), tmp_path, serve=serve) as app:
        until(app, shared(app, 1))
        app.stop()
        patience.until(lambda: not app.is_alive)
