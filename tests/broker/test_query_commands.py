"""What the command tells of an application that runs, all asked of one on the real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from logstate.app.application import Application
from logstate.cli.main import app as command
from logstate.contracts.clients import NewTopic
from logstate.contracts.records import ProducedRecord
from logstate.kafka.cluster import KafkaCluster
from logstate.topology.dsl.topology_target import load_topology
from tests.patience import until

MODULE = """
from datetime import timedelta
from logstate import SessionWindows, StreamsBuilder, TumblingWindows

def words():
    builder = StreamsBuilder()
    words = builder.stream("TOPIC", key=str, value=str).group_by(str.upper, key=str, name="words")
    words.count(store="counts")
    windows = TumblingWindows(size=timedelta(seconds=10), grace=timedelta(minutes=1))
    words.windowed_by(windows).count(store="per_window")
    sessions = SessionWindows(gap=timedelta(seconds=5), grace=timedelta(minutes=1))
    words.windowed_by(sessions).count(store="sessions")
    return builder.build()
"""


INDEXED = """
import msgspec
from logstate import Materialized, StreamsBuilder

class Order(msgspec.Struct, frozen=True):
    city: str
    cents: int

def words():
    builder = StreamsBuilder()
    orders = Materialized("orders", indexes={"city": lambda order: order.city})
    builder.table("TOPIC", key=str, value=Order, store=orders)
    return builder.build()
"""


class Words:
    """An application that counts words, served, until all are counted; or that of another text."""

    def __init__(self, bootstrap: str, name: str, path: Path, module: str = MODULE) -> None:
        self.bootstrap, self.name, self.path = bootstrap, name, path
        self.module, self.topic = name.replace("-", "_"), f"{name}.in"
        text = module.replace("TOPIC", self.topic)
        (path / f"{self.module}.py").write_text(text, encoding="utf-8")
        self.cluster = KafkaCluster(bootstrap)
        admin = self.cluster.admin()
        admin.create_topics([NewTopic(self.topic, 2, 1, {})])
        admin.close()

    def send(self, *words: tuple[bytes, int]) -> None:
        producer = self.cluster.plain_producer()
        producer.produce([ProducedRecord(self.topic, 0, b"k", word, at) for word, at in words])
        producer.flush()
        producer.close()

    def app(self) -> Application:
        return Application(
            load_topology(f"{self.module}:words", directory=str(self.path)),
            application_id=self.name,
            bootstrap=self.bootstrap,
            state_dir=self.path / "state",
            commit_interval=timedelta(milliseconds=10),
            serve="127.0.0.1:0",
        )

    def call(self, *arguments: str) -> Result:
        return CliRunner().invoke(command, [*arguments, "--bootstrap", self.bootstrap])

    def told(self, *arguments: str, status: int = 0) -> Any:
        answer = self.call(*arguments, "--json")
        assert answer.exit_code == status, (answer.output, answer.exception)
        return json.loads(answer.stdout)

    def lines(self, *arguments: str) -> list[Any]:
        """What a command tells in a line for each record."""
        answer = self.call(*arguments, "--json")
        assert answer.exit_code == 0, (answer.output, answer.exception)
        return [json.loads(line) for line in answer.stdout.splitlines()]

    def has(self, store: str, key: str, value: object) -> bool:
        """Whether a store has this for a key, as of the newest commit."""
        answer = self.call("get", store, key, "--application-id", self.name, "--json")
        rows = json.loads(answer.stdout)["rows"] if answer.exit_code == 0 else []
        return [row["value"] for row in rows] == [value]


@pytest.fixture
def words(
    bootstrap: str,
    unique: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Words:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return Words(bootstrap, unique("words"), tmp_path)


def window(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["window_start"], row["window_end"], row["value"]


def test_keys_and_records_of_an_application_that_has_ended_are_shown(words: Words) -> None:
    words.send((b"ada", 1_000), (b"bob", 2_000), (b"-5", 3_000), (b"--json", 3_000))
    words.send((b"ada", 12_000))
    check_topics_are_created_ahead(words)
    with words.app():
        until(lambda: words.has("counts", "ADA", 2))
    of = ("--application-id", words.name)
    (ada,) = words.told("get", "counts", "ADA", *of)["rows"]
    assert (ada["key"], ada["value"], ada["timestamp"]) == ("ADA", 2, 12_000)
    per_window = words.told("get", "per_window", "ADA", *of)["rows"]
    assert [window(row) for row in per_window] == [(0, 10_000, 1), (10_000, 20_000, 1)]
    sessions = words.told("get", "sessions", "ADA", *of)["rows"]
    assert [window(row) for row in sessions] == [(1_000, 1_000, 1), (12_000, 12_000, 1)]
    assert "1970-01-01T00:00:10.000Z" in words.call("get", "per_window", "ADA", *of).stdout
    assert words.told("get", "counts", "nobody", *of, status=6)["rows"] == []
    (negative,) = words.told("get", "counts", "-5", *of)["rows"]
    assert (negative["key"], negative["value"]) == ("-5", 1)
    place = ["--bootstrap", words.bootstrap]
    option = CliRunner().invoke(command, ["get", *place, *of, "counts", "--", "--JSON"])
    assert (option.exit_code, "--JSON" in option.stdout) == (0, True)
    check_tails(words)
    for arguments, answer in (
        (("count", "ADA", *of), "did you mean 'counts'"),
        (("counts", "ADA", "--application-id", "nobody"), "never ran on these brokers"),
    ):
        assert answer in str(words.call("get", *arguments).exception)


def check_topics_are_created_ahead(words: Words) -> None:
    create = [
        "topics",
        "create",
        f"{words.module}:words",
        "--application-id",
        words.name,
        "--serve",
    ]
    needed = words.told(*create, "--dry-run")["topics"]
    assert [one["exists"] or one["is_created"] for one in needed] == [False] * len(needed)
    assert f"{words.name}-counts-changelog" in words.call(*create, "--dry-run").stdout
    assert all(one["is_created"] for one in words.told(*create)["topics"])
    again = words.told(*create)["topics"]
    assert {one["name"] for one in again} == {one["name"] for one in needed}
    assert all(one["exists"] and not one["differences"] for one in again)


def check_tails(words: Words) -> None:
    place = ["--application-id", words.name]
    newest = words.lines("tail", "per_window", *place, "--limit", "1")
    assert [(row["key"], *window(row)) for row in newest] == [("ADA", 10_000, 20_000, 1)]
    assert newest[0]["key_format"] == "string"
    every = words.lines("tail", "counts", *place, "--from-beginning")
    counts = {"ADA": 2, "BOB": 1, "-5": 1, "--JSON": 1}
    assert {row["key"]: row["value"] for row in every} == counts
    between = f"{words.name}-words-repartition"
    assert {row["value_format"] for row in words.lines("tail", between, *place)} <= {"string"}
    inputs = words.lines("tail", words.topic, "--from-beginning", "--limit", "2")
    assert [row["value"] for row in inputs] == ["ada", "bob"]
    assert inputs[0]["value_format"] == "guessed: text"
    followed = words.lines("tail", words.topic, "--follow", "--limit", "3")
    assert len(followed) == 3
    shown = words.call("tail", "per_window", *place).stdout
    assert "ADA  [1970-01-01T00:00:10.000Z, 1970-01-01T00:00:20.000Z]  1" in shown
    assert "did you mean 'counts'" in str(words.call("tail", "count", *place).exception)
    assert "name that by --application-id" in str(words.call("tail", "counts").exception)


def has_settled(words: Words) -> bool:
    answer = words.call("status", "--application-id", words.name, "--json")
    told = json.loads(answer.stdout) if answer.exit_code == 0 else {}
    return bool(told) and told["all_runs"] and len(told["tasks"]) == 4 and told["lag"] == 0


def test_an_application_that_runs_tells_of_itself_and_one_that_has_ended_does_not(
    words: Words,
) -> None:
    with words.app():
        until(lambda: has_settled(words))
        told = words.told("status", "--application-id", words.name)
        (instance,) = told["instances"]
        assert instance["is_alive"]
        assert instance["tasks"] == ["0_0", "0_1", "1_0", "1_1"]
        assert {one["stage"] for one in told["tasks"]} == {"running"}
        assert (told["lag"], told["all_runs"]) == (0, True)
        shown = words.call("status", "--application-id", words.name).stdout
        assert "alive" in shown
        assert "1_1" in shown
    ended = words.call("status", "--application-id", words.name)
    assert ended.exit_code == 5
    assert "No instance announces itself" in ended.stdout


def test_doctor_looks_at_brokers_and_their_clock(bootstrap: str, tmp_path: Path) -> None:
    arguments = ["doctor", "--bootstrap", bootstrap, "--state-dir", str(tmp_path), "--write"]

    def check() -> dict[str, Any]:
        told = CliRunner().invoke(command, [*arguments, "--json"])
        assert told.exit_code == 0, told.output
        return {one["subject"]: one for one in json.loads(told.stdout)["findings"]}

    # While this process stands still its clock goes on, which looks like a skew.
    found = until(lambda: is_in_time if (is_in_time := check())["clock"]["level"] == "ok" else {})
    assert bootstrap in found["brokers"]["found"]
    assert found["groups by the brokers (KIP-848)"]["level"] == "ok"
    assert found["transactions"]["level"] == "ok"
    assert found["clock"]["level"] == "ok"


def test_doctor_says_what_to_do_where_nobody_answers() -> None:
    told = CliRunner().invoke(command, ["doctor", "--bootstrap", "127.0.0.1:1"])
    assert told.exit_code == 1
    assert "no broker answers at" in told.stdout
    assert "the address is right" in told.stdout


def test_the_rows_of_an_indexed_value_are_shown(
    bootstrap: str,
    unique: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    orders = Words(bootstrap, unique("indexed"), tmp_path, INDEXED)
    producer = orders.cluster.plain_producer()
    for key, city in (
        (b"o-1", b"Oslo"),
        (b"o-2", b"Bergen"),
        (b"o-3", b"Oslo"),
        (b"o-1", b"Bergen"),
        (b"o-4", b"Oslo"),
    ):
        value = b'{"city": "%s", "cents": 5}' % city
        producer.produce([ProducedRecord(orders.topic, None, key, value, 9)])
    producer.produce([ProducedRecord(orders.topic, None, b"o-4", None, 10)])
    producer.flush()
    producer.close()
    with orders.app() as app:
        app.wait_until_caught_up()
    of = ("--application-id", orders.name, "--topology", f"{orders.module}:words")
    for city, keys in (("Oslo", ["o-3"]), ("Bergen", ["o-1", "o-2"])):
        rows = orders.told("get", "orders", "--by", "city", city, *of)["rows"]
        assert sorted(row["key"] for row in rows) == keys
        assert {row["value"]["city"] for row in rows} == {city}
    assert orders.told("get", "orders", "--by", "city", "Os", *of, status=6)["rows"] == []
    text = orders.call("get", "orders", "--by", "city", "Os", *of).stdout
    assert "Store 'orders' has no row for 'Os' in index 'city'." in text
