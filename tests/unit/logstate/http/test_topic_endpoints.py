"""The topics of an application over HTTP: their list, and the newest records of one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from logstate import ErrorHandlers, dead_letter
from logstate.app.application import Application
from logstate.contracts.serving import Serving
from logstate.testing import FakeCluster
from logstate.topology import StreamsBuilder, Topology, TumblingWindows
from tests import patience
from tests.unhurried import no_silence, unhurried  # noqa: F401  for this module
from tests.unit.logstate.instances import until

TOKEN = {"Authorization": "Bearer hush"}
RECORDS = 30


def decoded(value: int) -> int:
    if value == 13:
        raise ValueError("<b>thirteen</b>")
    return value


def topology() -> Topology:
    builder = StreamsBuilder()
    numbers = builder.stream("numbers", key=str, value=int).map_values(decoded, value=int)
    by_digit = numbers.group_by(lambda n: n % 10, key=int, value=int, name="by-digit")
    windows = TumblingWindows(size=timedelta(seconds=10), grace=timedelta(0))
    by_digit.windowed_by(windows).count(store="per-10s").to_stream().to("counted")
    return builder.build()


@pytest.fixture(scope="module")
def cluster() -> FakeCluster:
    return unhurried({"numbers": 2, "counted": 1, "dead": 1, "foreign": 1})


@pytest.fixture(scope="module")
def app(cluster: FakeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    for n in range(RECORDS):
        value = n.to_bytes(8, "big")
        cluster.produce("numbers", f"k{n}".encode(), value, partition=n % 2, timestamp=1_000 + n)
    handlers = ErrorHandlers(processing=dead_letter, dead_letter_topic="dead")
    with Application(
        topology(),
        application_id="digits",
        bootstrap="fake:9092",
        state_dir=tmp_path_factory.mktemp("state"),
        commit_interval=timedelta(milliseconds=10),
        cluster=cluster,
        error_handlers=handlers,
        serve=Serving("127.0.0.1:0", token="hush"),
    ) as app:
        until(app, lambda: sum(len(one.tasks) for one in app.all_instances()) == 4)
        app.wait_until_caught_up()
        yield app


@pytest.fixture(scope="module")
def http(app: Application) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=app.all_instances()[0].host,
        trust_env=False,
        timeout=patience.PATIENCE_S,
        headers=TOKEN,
    ) as client:
        yield client


def newest(http: httpx.Client, topic: str, limit: int = 5) -> dict[str, Any]:
    answer = http.get(f"/topics/{topic}", params={"limit": limit})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_topics_of_the_application_are_listed_with_their_kinds(http: httpx.Client) -> None:
    assert http.get("/topics").json() == {
        "topics": [
            {"name": "counted", "kind": "output"},
            {"name": "dead", "kind": "dead letters"},
            {"name": "digits-by-digit-repartition", "kind": "repartition"},
            {"name": "digits-per-10s-changelog", "kind": "changelog"},
            {"name": "numbers", "kind": "input"},
        ]
    }


def test_the_newest_records_come_first_and_are_decoded(http: httpx.Client) -> None:
    found = newest(http, "numbers")
    assert (found["topic"], found["kind"], found["partitions"]) == ("numbers", "input", 2)
    assert found["is_complete"]
    assert found["records"][0] == {
        "topic": "numbers",
        "partition": 1,
        "offset": 14,
        "timestamp": 1_029,
        "key": "k29",
        "value": 29,
        "key_format": "string",
        "value_format": "int64",
    }
    assert [record["value"] for record in found["records"]] == [29, 28, 27, 26, 25]


def test_records_of_changelogs_and_of_topics_between_tasks_are_decoded(http: httpx.Client) -> None:
    record = newest(http, "digits-per-10s-changelog")["records"][0]
    assert (record["key"] in range(10), record["window_start"], record["window_end"]) == (
        True,
        0,
        10_000,
    )
    assert record["value"] in (2, 3)
    assert {one["key"] for one in newest(http, "digits-by-digit-repartition", 50)["records"]} <= {
        *range(10)
    }
    windowed = newest(http, "counted")["records"][0]
    assert windowed["key"] in range(10)
    assert windowed["window_start"] == 0


def test_a_dead_letter_has_its_error_and_the_formats_of_its_topic(http: httpx.Client) -> None:
    found = newest(http, "dead")
    (letter,) = found["records"]
    assert found["kind"] == "dead letters"
    assert (letter["key"], letter["value"]) == ("k13", 13)
    error = letter["error"]
    assert error["exception"] == "builtins.ValueError"
    assert error["message"] == "<b>thirteen</b>"
    assert (error["topic"], error["partition"], error["offset"]) == ("numbers", "1", "6")
    assert "in decoded" in error["stacktrace"]


def test_more_records_than_there_are_is_all_of_them(http: httpx.Client) -> None:
    assert len(newest(http, "numbers", 100)["records"]) == RECORDS
    assert len(newest(http, "numbers", 1)["records"]) == 1


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/topics/foreign", "application 'digits' has no topic 'foreign'; its topics are counted,"),
        ("/topics/digits-cuts", "application 'digits' has no topic 'digits-cuts'"),
        ("/topics/numbers?limit=0", "limit must be at least 1 and below 2**63; got 0"),
        ("/topics/numbers?limit=x", "limit must be a whole number; got 'x'"),
        ("/topics/numbers?color=red", "unknown query parameter 'color'. Known: limit"),
        ("/topics?limit=3", "unknown query parameter 'limit'"),
        ("/topology?as=text&width=400", "width= is for as=svg, between 200 and 10000; got 400"),
        ("/topology?as=svg&width=5", "width= is for as=svg, between 200 and 10000; got 5"),
    ],
)
def test_a_wrong_request_is_refused_with_the_reason(
    http: httpx.Client, path: str, reason: str
) -> None:
    answer = http.get(path)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(reason)


def test_topics_need_the_token(http: httpx.Client) -> None:
    for path in ("/topics", "/topics/numbers", "/topology?as=json"):
        assert httpx.get(f"{http.base_url}{path}", trust_env=False).status_code == 401


def test_a_picture_may_be_narrow(http: httpx.Client) -> None:
    wide, narrow = (http.get(f"/topology?as=svg{width}").text for width in ("", "&width=250"))
    assert wide != narrow
    assert "<svg" in narrow


def test_operators_name_the_topics_whose_counts_they_follow(http: httpx.Client) -> None:
    parts = http.get("/topology?as=json").json()["sub_topologies"]
    first, second = parts
    changes = next(one for one in second["operators"] if "TOSTREAM" in one["name"])
    assert changes["receives"] == [{"topic": "counted", "is_written": True}]
    source = next(one for one in second["operators"] if one["kind"] == "source")
    between = "digits-by-digit-repartition"
    assert source["receives"] == [{"topic": between, "is_written": False}]
    sink = next(one for one in first["operators"] if one["kind"] == "sink")
    assert sink["receives"] == [{"topic": between, "is_written": True}]


def test_status_counts_the_records_of_each_topic(http: httpx.Client) -> None:
    check = lambda: http.get("/status").json()["instances"][0]["figures"]  # noqa: E731
    between, letters = "digits-by-digit-repartition", 1
    patience.until(lambda: check()["read"] == {"numbers": RECORDS, between: RECORDS - letters})
    written = check()["written"]
    assert written[between] == RECORDS - letters
    assert written["counted"] > 0


def test_status_has_the_stream_time_of_each_task(http: httpx.Client) -> None:
    check = lambda: http.get("/status").json()["instances"][0]["tasks"]  # noqa: E731
    patience.until(lambda: check()["0_1"]["stream_time_ms"] == 1_029)
    assert check()["0_1"]["waits_for"] == []
