"""Requests that ask for something else than their sender may think."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from logstate.contracts.serving import Serving
from logstate.testing import FakeCluster
from tests import patience
from tests.unhurried import no_silence  # noqa: F401  for this module
from tests.unit.logstate.instances import caught_up, cluster_with, instance, send, shared, until


@pytest.fixture(scope="module")
def cluster() -> FakeCluster:
    return cluster_with()


@pytest.fixture(scope="module")
def http(cluster: FakeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    state: Path = tmp_path_factory.mktemp("a")
    with instance(cluster, state, serve=Serving("127.0.0.1:0")) as app:
        until(app, shared(app, 1))
        caught_up(app, cluster)
        host = app.all_instances()[0].host
        with httpx.Client(base_url=host, trust_env=False, timeout=patience.PATIENCE_S) as client:
            yield client


def lines_of(answer: httpx.Response) -> list[dict[str, object]]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.mark.parametrize("key", ["k3\n", "\nk3", "k\n3", "\n", "changes\n"])
def test_a_key_with_a_line_break_is_not_the_key_without_it(
    http: httpx.Client, cluster: FakeCluster, key: str
) -> None:
    path = f"/stores/counts/{quote(key, safe='')}"
    none = http.get(path)
    assert (none.status_code, none.json()["error"]) == (404, "the row does not exist")
    send(cluster, key)
    found = patience.until(lambda: (got := http.get(path)).status_code == 200 and got)
    assert found.json()["row"]["value"] == 1


@pytest.mark.parametrize("path", ["/nothing", "/stores//k3", "/store/counts/k3", "/live\n"])
def test_a_path_that_there_is_not_is_told_from_a_row_that_there_is_not(
    http: httpx.Client, path: str
) -> None:
    answer = http.get(quote(path))
    assert answer.status_code == 404
    assert f"unknown path {path!r}: the paths are /, /live, " in answer.json()["error"]


@pytest.mark.parametrize("method", ["OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE"])
@pytest.mark.parametrize(
    "path", ["/", "/live", "/stores", "/stores/counts", "/stores/counts/k3", "/status"]
)
def test_whatever_would_change_something_is_refused_with_what_is_allowed(
    http: httpx.Client, method: str, path: str
) -> None:
    answer = http.request(method, path)
    assert (answer.status_code, sorted(answer.headers["allow"].split(", "))) == (
        405,
        ["GET", "HEAD"],
    )
    assert answer.json()["error"] == f"{method} is not allowed for {path!r}: use GET, HEAD"


@pytest.mark.parametrize("span", ["from=5", "to=5", "from=0&to=5"])
def test_a_window_is_asked_for_by_its_start_or_by_a_span(http: httpx.Client, span: str) -> None:
    answer = http.get(f"/stores/per-10s/k3?start=0&{span}")
    assert answer.status_code == 400
    assert "start= selects one window, from= and to= those of a span" in answer.text


def test_pages_go_on_as_they_began_and_a_wrong_question_does_not_take_one(
    http: httpx.Client,
) -> None:
    asked = {"lower": "k1", "upper": "k2", "limit": "2"}
    first = lines_of(http.get("/stores/counts", params=asked))
    goes_on = {"continue": str(first[-1]["continue"])}
    for path, other, reason in (
        ("/stores/per-10s", {}, "belongs to store 'counts'"),
        ("/stores/counts", {"lower": "k5"}, "lower= was ['k1'] for the first page"),
        ("/stores/counts", {"standbys": "true"}, "standbys= was not given for the first page"),
        ("/stores/counts", {"key": "base64"}, "key= was not given for the first page"),
    ):
        refused = http.get(path, params={**goes_on, **other})
        assert (refused.status_code, reason in refused.json()["error"]) == (400, True), refused.text
    found = [row["key"] for row in first if "key" in row]
    while "continue" in goes_on:
        page = lines_of(http.get("/stores/counts", params={**asked, **goes_on}))
        found += [row["key"] for row in page if "key" in row]
        goes_on = {name: str(it) for name, it in page[-1].items() if name == "continue"}
    assert sorted(map(str, found)) == sorted(["k1", *(f"k1{n}" for n in range(10)), "k2"])


def test_a_page_of_another_instance_is_said_to_be_perhaps_that(http: httpx.Client) -> None:
    gone = http.get("/stores/counts", params={"continue": "x" * 5_000})
    assert gone.status_code == 410
    assert "Restart the scan, and read all pages from one instance" in gone.json()["error"]


def test_of_several_bounds_for_one_partition_the_greatest_counts(http: httpx.Client) -> None:
    partition = http.get("/stores/counts/k3").json()["partition"]
    name = f"in-{partition}"
    answer = http.get(f"/stores/counts/k3?at_least={name}:1&at_least={name}:0")
    assert answer.status_code == 200
    bounds = f"at_least=in-9:1&at_least={name}:5&at_least={name}:1"
    assert "partition 9" in http.get(f"/stores/counts/k3?{bounds}").json()["error"]


@pytest.mark.parametrize(
    ("place", "status", "reason"),
    [
        ("0:0,0:1,1:0,2:0,3:0", 400, "is not the id of a change"),
        ("0:0,1:0,2:0", 400, "is not the id of a change"),
        ("0:0,1:0,2:0,3:0,4:0", 400, "is not the id of a change"),
        ("0:-1,1:0,2:0,3:0", 400, "is not the id of a change"),
        ("0:0,1:0,2:0,3:0@-5", 400, "is not the id of a change"),
        ("0:0,1:0,2:0,3:0@5@6", 400, "is not the id of a change"),
        ("0:0,1:0,2:0,3:9999999999999999999", 410, "start over"),
        (",".join(f"{n}:0" for n in range(5_000)), 400, "is not the id of a change"),
        ("0:0,1:0,2:0,3:0@1~of-another", 410, "or in the log of another store or application"),
    ],
)
@pytest.mark.parametrize("is_header", [True, False], ids=["header", "parameter"])
def test_a_place_that_is_none_of_this_log_begins_no_stream(
    http: httpx.Client, place: str, status: int, reason: str, is_header: bool
) -> None:
    path = "/stores/counts/changes"
    given = {"headers": {"Last-Event-ID": place}} if is_header else {"params": {"after": place}}
    with http.stream("GET", path, **given) as answer:  # type: ignore[arg-type]
        assert answer.status_code == status
        assert reason in json.loads(answer.read())["error"]


def test_a_place_in_the_header_counts_before_the_one_that_the_address_began_with(
    http: httpx.Client,
) -> None:
    """A browser connects again to the same address, and has read on since."""
    path, young = "/stores/counts/changes", "0:0,1:0,2:0,3:0"
    with http.stream(
        "GET", path, params={"after": "0:1,1:1,2:1,3:1"}, headers={"Last-Event-ID": young}
    ) as answer:
        data = next(line for line in answer.iter_lines() if line.startswith("data: "))
    assert json.loads(data.removeprefix("data: "))["offset"] == 0
    refused = http.get(path, params={"after": young}, headers={"Last-Event-ID": "garbage"})
    assert (refused.status_code, "'garbage'" in refused.text) == (400, True)
