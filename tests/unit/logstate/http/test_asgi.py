"""The HTTP of one instance, as anybody may ask it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from logstate.app.application import Application
from logstate.contracts.errors import ConfigError
from logstate.contracts.serving import Serving
from logstate.contracts.stores import ValueAndTimestamp
from logstate.http.asgi import _lines
from logstate.http.keys import plain
from logstate.http.remote_store import RemoteAnswer
from logstate.http.responses import handle_errors, json_response
from logstate.http.server import Server
from logstate.queries.requests import ReadRequest
from tests import patience
from tests.unhurried import no_silence  # noqa: F401  for this module
from tests.unit.logstate.instances import KEYS, cluster_with, instance, shared, until

TOKEN = {"Authorization": "Bearer hush"}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    serve = Serving("127.0.0.1:0", token="hush", page_rows=7, drain=timedelta(0))
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
        error_response = bare.get(path)
        assert (error_response.status_code, error_response.headers["www-authenticate"]) == (
            401,
            "Bearer",
        ), path
        for wrong in ("Bearer wrong", "Basic hush", "hush", "Bearer", "Bearer hush hush"):
            assert bare.get(path, headers={"Authorization": wrong}).status_code == 401
    assert bare.get("/stores", headers={"Authorization": "bearer  hush"}).status_code == 200
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
        (
            "/stores/counts/%FF",
            "the path of the request is not UTF-8: invalid start byte at byte 15",
        ),
        ("/stores/counts?lower=k%FF", "the query of the request is not UTF-8"),
        ("/stores/counts/_w?key=base64", "is not a key of store 'counts', whose keys are string"),
        ("/stores/counts/azM!!?key=base64", "'azM!!' is not a key of store 'counts'"),
        ("/stores/counts/azM?key=base46", "key must be base64, or be left out; got 'base46'"),
        ("/stores/counts/" + "k" * 9_000, "has 9000 characters, but at most 8192"),
        ("/stores/per-10s/k1?from=x", "from must be a whole number; got 'x'"),
        ("/stores/counts?limit=-3", "limit must be at least 1"),
        ("/stores/counts?limit=0", "limit must be at least 1"),
        ("/stores/per-10s/k1?start=1" + "0" * 30, "start must be a whole number; got '1000"),
        (
            "/stores/per-10s/k1?start=9223372036854775808",
            "start must be at least 0 and below 2**63",
        ),
        ("/stores/per-10s/k1?from=1" + "0" * 5_000, "from must be a whole number; got '1000"),
        (
            "/stores/counts/k1?as_of=5",
            "as_of= has no meaning for this read of a timestamped_key_value",
        ),
        ("/stores/counts/k1?start=5", "store: it has no times"),
        ("/stores/counts?from=5", "from= has no meaning for this read of a timestamped_key_value"),
        ("/stores/per-10s/k1?as_of=5", "store: its times are start, from, to"),
        ("/stores/per-10s?start=5", "store: its times are from, to"),
        ("/stores/counts/k1?partition=4", "has no partition 4: they are 0 to 3"),
        ("/stores/counts/k1?partition=-1", "partition must be at least 0"),
        ("/stores/counts/k1?at_least=in", "at_least must be topic-partition:offset; got 'in'"),
        ("/stores/counts/k1?at_least=in-0:\u00b2", "at_least must be topic-partition:offset; got"),
        (
            "/stores/counts/k1?at_least=in-0:1" + "0" * 5_000,
            "the offset of at_least must be a whole",
        ),
        (
            "/stores/counts/k1?standby=true",
            "unknown query parameter 'standby'. Did you mean standbys=?",
        ),
        ("/stores/counts?partition=1", "unknown query parameter 'partition'"),
        ("/stores/counts/k1?partition=0&partition=1", "partition= is given 2 times"),
        ("/stores/counts?from=1&from=2", "from= is given 2 times"),
        ("/topology?form=svg", "unknown query parameter 'form'. Known: as"),
        ("/stores/counts/changes?begin=now", "unknown query parameter 'begin'"),
        ("/stores/counts/k1?at_least=in:1", "at_least takes offsets by 'topic-partition'; got"),
        ("/stores/counts/k1?at_least=in-" + "9" * 5_000 + ":1", "takes offsets by 'topic-part"),
        ("/stores/counts/k1?at_least=in-4:1", "has no partition 4: they are 0 to 3"),
        ("/stores/counts?at_least=in-4:1", "has no partition 4: they are 0 to 3"),
    ],
)
def test_wrong_input_is_refused_with_the_reason(http: httpx.Client, path: str, reason: str) -> None:
    answer = http.get(path)
    assert answer.status_code == 400
    assert reason in answer.json()["error"]


def test_a_look_at_the_headers_of_a_page_does_not_take_the_page(http: httpx.Client) -> None:
    token = http.get("/stores/counts?limit=3").text.splitlines()[-1].split('"')[3]
    asked = http.head("/stores/counts", params={"continue": token})
    assert (asked.status_code, asked.headers["content-type"]) == (200, "application/x-ndjson")
    page = http.get("/stores/counts", params={"continue": token, "limit": 3})
    assert (page.status_code, len(page.text.splitlines())) == (200, 4)


def test_a_range_is_one_of_the_keys_that_are_given_however_they_are_written(
    http: httpx.Client,
) -> None:
    def keys(path: str, **query: Any) -> set[str]:
        lines = http.get(path, params={"limit": 7, **query}).text.splitlines()
        return {row["key"] for row in map(json.loads, lines) if "key" in row}

    assert keys("/stores/counts", lower="k18", upper="k2") == {"k18", "k19", "k2"}
    assert keys("/stores/counts", lower="azE4", upper="azI=", key="base64") == {"k18", "k19", "k2"}
    assert keys("/stores/per-10s", lower="k18", upper="k2") == {"k18", "k19", "k2"}


def test_a_page_goes_on_in_the_store_that_it_is_of(http: httpx.Client) -> None:
    first = [json.loads(line) for line in http.get("/stores/counts?limit=2").text.splitlines()]
    error_response = http.get("/stores/per-10s", params={"continue": first[-1]["continue"]})
    assert (error_response.status_code, "belongs to store 'counts'" in error_response.text) == (
        400,
        True,
    )


def test_what_is_no_request_of_an_instance_is_refused(http: httpx.Client, app: Application) -> None:
    deep = msgspec.msgpack.encode(ReadRequest("me", "counts", 0, "get", (0,))).replace(
        b"\x91\x00", b"\x91" * 100_000
    )
    for body in (b"\xc1", b"\x81\xa1\xff\x00", deep):
        answer = http.post("/instances/read", content=body)
        assert (answer.status_code, "malformed read request" in answer.text) == (400, True)
    assert http.post("/instances/read", content=b"x" * 1_100_000).status_code == 413
    assert http.get("/instances/read").status_code == 405
    own = app.all_instances()[0].instance
    for wrong in (
        ReadRequest(own, "per-10s", 0, "fetch_range", (b"k1", "a", [])),
        ReadRequest(own, "per-10s", 0, "fetch", (b"k1", 2**63)),
        ReadRequest(own, "counts", 0, "get", ()),
        ReadRequest(own, "counts", 0, "get", ("k1",)),
        ReadRequest(own, "counts", 0, "get", (b"k1",), {"no_such_option": True}),
    ):
        answer = http.post("/instances/read", content=msgspec.msgpack.encode(wrong))
        assert answer.status_code == 400, wrong


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
    serve = Serving("127.0.0.1:0", max_age=timedelta(milliseconds=400), drain=timedelta(0))
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
    assert "this instance stops before it has an answer" in answer.result().json()["error"]


def test_an_address_that_another_has_is_said_to_be_so(http: httpx.Client, tmp_path: Path) -> None:
    taken = f"{http.base_url.host}:{http.base_url.port}"
    with pytest.raises(ConfigError, match=r"cannot listen.*Another process has the port"):
        Server(Serving(taken))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({(1, 2): 3}, b'"{(1, 2): 3}"'),
        ({1: b"\xff"}, b'{"1":"/w=="}'),
        (float("nan"), b"null"),
        (ValueAndTimestamp(object, 5), b'{"value":"<class \'object\'>","timestamp":5}'),
    ],
    ids=["keys of no text", "bytes", "nan", "a class"],
)
def test_a_value_that_json_has_not_is_shown_as_it_prints(value: Any, shown: bytes) -> None:
    assert msgspec.json.encode(plain(value)) == shown


def test_text_that_json_cannot_have_is_refused_with_the_reason() -> None:
    wrong = "lone \ud800"
    reason = "cannot be shown as JSON: UnicodeEncodeError"
    refusal = handle_errors(lambda _: json_response({"row": plain(wrong)}), None)
    assert refusal.status_code == 400
    assert reason in json.loads(refusal.body)["error"]
    answer = RemoteAnswer(iter([("k1", 1), ("k2", wrong)]), {}, "", 0)
    _, first, last = [json.loads(line) for _, line in _lines(iter([answer]))]
    assert first == {"key": "k1", "value": 1}
    assert reason in last["error"]
