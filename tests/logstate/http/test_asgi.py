"""The HTTP of one instance, as anybody may ask it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from logstate.app import Application
from logstate.contracts.errors import ConfigError
from logstate.contracts.serving import Serving
from logstate.http.server import Server
from tests import patience
from tests.logstate.neighbours import KEYS, cluster_with, instance, shared, until
from tests.unhurried import no_silence  # noqa: F401  for this module

TOKEN = {"Authorization": "Bearer hush"}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    serve = Serving("127.0.0.1:0", token="hush", page_rows=7)
    with instance(cluster_with(), tmp_path_factory.mktemp("a"), serve=serve) as app:
        until(app, shared(app, 1))
        yield app


@pytest.fixture(scope="module")
def http(app: Application) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=app.all_instances()[0].host,
        headers=TOKEN,
        trust_env=False,
        timeout=patience.PATIENCE_S,
    ) as client:
        yield client


def test_health_needs_no_token_and_everything_else_does(http: httpx.Client) -> None:
    bare = httpx.Client(base_url=http.base_url, trust_env=False, timeout=patience.PATIENCE_S)
    assert bare.get("/live").json() == {"ok": True, "reason": "it runs, or will"}
    assert bare.get("/ready").json()["ok"] is True
    for path in ("/stores", "/stores/counts", "/stores/counts/k1", "/status", "/metrics"):
        refused = bare.get(path)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer"), path
        assert bare.get(path, headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert bare.post("/instances/read", content=b"").status_code == 401


def test_a_key_of_the_path_is_one_of_the_stores_serde(http: httpx.Client) -> None:
    found = http.get("/stores/counts/k3")
    assert found.status_code == 200
    assert found.json()["row"] == {"value": 4, "timestamp": 1}
    assert list(found.json()["positions"]) == [f"in-{found.json()['partition']}"]
    assert http.get("/stores/counts/nobody").status_code == 404
    assert http.get("/stores/counts/azM?key=base64").json()["row"]["value"] == 4
    windows = http.get("/stores/per-10s/k3", params={"from": 0, "to": 9}).json()["rows"]
    assert windows == [{"key": 0, "value": 4, "timestamp": 1}]
    assert http.get("/stores/per-10s/k3?start=0").json()["row"]["value"] == 4


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/stores/count/k1", "there is no store 'count'; the topology has"),
        ("/stores/counts/%FF?key=base64", "is no key of store 'counts', whose keys are string"),
        ("/stores/counts/" + "k" * 9_000, "has 9000 characters, and at most 8192"),
        ("/stores/per-10s/k1?from=x", "from must be a whole number; got 'x'"),
        ("/stores/counts?limit=-3", "limit must be at least 1"),
        ("/stores/counts/k1?at_least=in", "at_least must be topic-partition:offset; got 'in'"),
    ],
)
def test_wrong_input_is_refused_with_the_reason(http: httpx.Client, path: str, reason: str) -> None:
    answer = http.get(path)
    assert answer.status_code == 400
    assert reason in answer.json()["error"]


def test_what_is_no_request_of_an_instance_is_refused(http: httpx.Client) -> None:
    assert http.post("/instances/read", content=b"\xc1").status_code == 400
    assert http.post("/instances/read", content=b"x" * 1_100_000).status_code == 413
    assert http.get("/instances/read").status_code == 405


def test_a_range_comes_in_pages_of_lines(http: httpx.Client) -> None:
    rows: dict[str, int] = {}
    path, pages = "/stores/counts?limit=6", 0
    while path:
        answer = http.get(path)
        assert answer.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in answer.text.splitlines()]
        rows |= {line["key"]: line["value"] for line in lines if "key" in line}
        pages += 1
        last = lines[-1]
        path = f"/stores/counts?limit=6&continue={last['continue']}" if "continue" in last else ""
    assert last == {"end": True}
    assert rows == {key: number + 1 for number, key in enumerate(KEYS)}
    assert pages == 4
    assert http.get("/stores/counts?continue=gone").status_code == 410


def test_figures_and_what_it_is_are_shown(http: httpx.Client) -> None:
    status = http.get("/status").json()
    assert (status["state"], status["ready"]["ok"]) == ("running", True)
    assert [one["host"] for one in status["instances"]] == [str(http.base_url).rstrip("/")]
    assert {one["name"] for one in http.get("/stores").json()["stores"]} == {
        "counts",
        "per-10s",
        "names",
    }
    assert "logstate_commit_total" in http.get("/metrics").text
    assert "Sub-topology: 0" in http.get("/topology").text


def test_ready_turns_false_while_brokers_are_away_for_long_and_true_again(tmp_path: Path) -> None:
    cluster = cluster_with()
    serve = Serving("127.0.0.1:0", max_age=timedelta(milliseconds=400))
    with instance(cluster, tmp_path, serve=serve) as one:
        until(one, shared(one, 1))
        ready = f"{one.all_instances()[0].host}/ready"
        with httpx.Client(trust_env=False, timeout=patience.PATIENCE_S) as client:
            cluster.away = "the cable is out"
            patience.until(lambda: client.get(ready).status_code == 503)
            assert one.is_alive
            assert "s old, max_age allows 0.4 s" in client.get(ready).json()["reason"]
            cluster.away = None
            patience.until(lambda: client.get(ready).status_code == 200)
            assert one.is_alive
            assert client.get(ready.replace("ready", "live")).status_code == 200


def test_a_request_that_waits_while_the_instance_ends_is_told_so(tmp_path: Path) -> None:
    with instance(cluster_with(), tmp_path, serve="127.0.0.1:0") as one:
        until(one, shared(one, 1))
        host = one.all_instances()[0].host
        found = one.metadata_for_key("counts", "k3")
        waiting = f"{host}/stores/counts/k3?at_least=in-{found.partition}:9999"
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(httpx.get, waiting, trust_env=False, timeout=patience.PATIENCE_S)
            while not one._presence._server._server.server_state.tasks:  # type: ignore[union-attr]
                assert not answer.done()
            one.close()
    assert answer.result().status_code == 503
    assert "this instance ends before it has an answer" in answer.result().json()["error"]


def test_an_address_that_another_has_is_said_to_be_so(http: httpx.Client, tmp_path: Path) -> None:
    taken = f"{http.base_url.host}:{http.base_url.port}"
    with pytest.raises(ConfigError, match=r"cannot be listened at.*Another process has the port"):
        Server(Serving(taken))
