"""``logstate plan`` and ``logstate reset`` on the real broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from logstate.app.application import Application
from logstate.cli.main import app as command
from logstate.contracts.clients import Admin, NewTopic
from logstate.contracts.errors import (
    ConfigError,
    MembersLiveError,
    StateDirectoryError,
    StoreUnavailableError,
    TopicError,
)
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.kafka.group_offsets import committed_offsets
from logstate.topology.dsl.topology_target import load_topology
from tests.broker import patient_offsets
from tests.broker.group_settings import expect_heartbeats_within
from tests.patience import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]
MODULE = """
from datetime import timedelta
from logstate import StreamsBuilder, TumblingWindows

def counts(store="counts"):
    builder = StreamsBuilder()
    words = builder.stream("TOPIC", key=str, value=str).group_by(str.upper, key=str, name="words")
    words.count(store=store)
    return builder.build()

def totals():
    return counts("totals")

def windowed():
    builder = StreamsBuilder()
    words = builder.stream("TOPIC", key=str, value=str).group_by(str.upper, key=str, name="words")
    words.windowed_by(TumblingWindows(size=timedelta(seconds=1))).count(store="counts")
    return builder.build()
"""


class Shop:
    """An application in a module of its own, whose input has three records."""

    def __init__(self, bootstrap: str, name: str, path: Path) -> None:
        self.bootstrap, self.application_id, self.path = bootstrap, name, path
        self.module = name.replace("-", "_")
        expect_heartbeats_within(bootstrap, name)  # a live member is one through any pause
        topic = f"{name}.in"
        text = MODULE.replace("TOPIC", topic)
        (path / f"{self.module}.py").write_text(text, encoding="utf-8")
        cluster = KafkaCluster(bootstrap)
        self.admin: Admin = cluster.admin()
        self.admin.create_topics([NewTopic(topic, 2, 1, {})])
        self.inputs = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        producer = cluster.plain_producer()
        producer.produce([ProducedRecord(topic, 0, b"k", word, 1) for word in (b"a", b"b", b"a")])
        producer.flush()
        producer.close()

    def app(self, **options: Any) -> Application:
        return Application(
            load_topology(f"{self.module}:counts", directory=str(self.path)),
            application_id=self.application_id,
            bootstrap=self.bootstrap,
            state_dir=self.path / "state",
            commit_interval=timedelta(milliseconds=10),
            **options,
        )

    def run(self) -> None:
        """Until all three words are counted."""
        with self.app() as app:
            until(lambda: _count(app, "A") + _count(app, "B") == 3)

    def plan(self, function: str, *arguments: str) -> Result:
        target = f"{self.module}:{function}"
        place = ["--application-id", self.application_id, "--bootstrap", self.bootstrap]
        return CliRunner().invoke(command, ["plan", target, *place, *arguments])

    def reset(self, *arguments: str) -> Result:
        place = ["--application-id", self.application_id, "--bootstrap", self.bootstrap]
        place += ["--state-dir", str(self.path / "state")]
        return CliRunner().invoke(command, ["reset", *place, *arguments])

    def handover(self, *arguments: str) -> Result:
        place = ["--application-id", self.application_id, "--bootstrap", self.bootstrap]
        return CliRunner().invoke(command, ["handover", *place, *arguments])

    def ask(self, name: str) -> Any:
        """What a command answers as JSON."""
        place = ["--application-id", self.application_id, "--bootstrap", self.bootstrap]
        answer = CliRunner().invoke(command, [name, *place, "--json"])
        assert answer.exit_code == 0, answer.output
        return json.loads(answer.stdout)

    def own_topics(self) -> set[str]:
        return {n for n in self.admin.topic_names() if n.startswith(f"{self.application_id}-")}


def _count(app: Application, word: str) -> int:
    try:
        row = app.store("counts").get(word)
    except StoreUnavailableError:
        return 0
    return 0 if row is None else int(row.value)


@pytest.fixture
def shop(
    bootstrap: str,
    unique: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Shop]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Shop(bootstrap, unique("shop"), tmp_path)
    yield made
    made.admin.close()


def test_a_run_by_the_command_commits_at_its_end_and_its_lag_and_stores_are_told(
    shop: Shop,
) -> None:
    arguments = ["run", f"{shop.module}:counts", "--application-id", shop.application_id]
    arguments += ["--bootstrap", shop.bootstrap, "--state-dir", str(shop.path / "state")]
    process = subprocess.Popen(
        [sys.executable, "-m", "logstate", *arguments],
        cwd=shop.path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    group, words = shop.application_id, shop.inputs[0]

    def has_counted() -> bool:
        settings = {"bootstrap.servers": shop.bootstrap}
        found = committed_offsets(settings, group, [words]).get(words)
        return found is not None and found.offset == 3

    until(has_counted)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0

    told = {(one["topic"], one["partition"]): one for one in shop.ask("lag")["partitions"]}
    assert (told[words]["committed"], told[words]["lag"]) == (3, 0)
    assert told[shop.inputs[1]]["lag"] == 0
    assert len(told) == 4, "two inputs, two partitions between"
    stores = shop.ask("stores")["stores"]
    assert stores["counts"]["changelog_topic"] == f"{group}-counts-changelog"
    shown = CliRunner().invoke(
        command, ["stores", "--application-id", group, "--bootstrap", shop.bootstrap]
    )
    assert "timestamped_key_value" in shown.stdout


def test_a_command_about_an_application_that_never_ran_says_so(shop: Shop) -> None:
    for name in ("lag", "stores"):
        place = ["--application-id", "nobody", "--bootstrap", shop.bootstrap]
        answer = CliRunner().invoke(command, [name, *place])
        assert answer.exit_code == 1
        assert "never ran on these brokers" in str(answer.exception) + answer.output


def test_a_plan_says_what_a_start_would_say_and_changes_nothing(shop: Shop) -> None:
    new = shop.plan("counts")
    assert (new.exit_code, new.stdout) == (
        0,
        f"Nothing is stored yet for application {shop.application_id!r}.\n",
    )
    shop.run()
    before = shop.own_topics()
    same = shop.plan("counts")
    assert (same.exit_code, same.stdout) == (
        0,
        "same: all stored data is read as before\n",
    )
    assert shop.plan("totals").exit_code == 3
    assert shop.plan("totals", "--renamed", "counts=totals").exit_code == 0
    assert shop.plan("totals", "--forget", "counts").exit_code == 0
    refused = shop.plan("windowed", "--json")
    assert refused.exit_code == 4
    found = json.loads(refused.stdout)
    assert found["verdict"] == "refused"
    first = found["changes"][0]
    assert (first["subject"], first["part"]) == ("store 'counts'", "kind")
    assert (first["stored"], first["declared"]) == ("timestamped_key_value", "timestamped_window")
    assert "window_size_ms" in shop.plan("windowed").stdout
    assert shop.own_topics() == before


def test_topologies_are_compared_without_a_broker(shop: Shop) -> None:
    one, other = f"{shop.module}:counts", f"{shop.module}:windowed"
    assert CliRunner().invoke(command, ["topology", "diff", one, one]).exit_code == 0
    refused = CliRunner().invoke(command, ["topology", "diff", one, other])
    assert refused.exit_code == 4
    assert "timestamped_window" in refused.stdout
    shown = CliRunner().invoke(command, ["topology", one])
    assert shown.stdout == CliRunner().invoke(command, ["topology", "show", one]).stdout
    assert "Sub-topology: 0" in shown.stdout


def test_a_reset_lists_what_goes_and_then_the_application_begins_from_nothing(shop: Shop) -> None:
    shop.run()
    own = shop.own_topics()
    dry = shop.reset("--dry-run", "--json")
    assert dry.exit_code == 0, dry.output
    told = json.loads(dry.stdout)
    assert set(told["topics"]) == own
    assert told["offsets"] == {str(tp): 0 for tp in shop.inputs}
    assert len(told["directories"]) == len(list((shop.path / "state").rglob("*_[01]")))
    assert shop.own_topics() == own
    done = shop.reset("--yes")
    assert done.exit_code == 0, done.output
    assert shop.own_topics() == set()
    assert list((shop.path / "state").rglob("*_[01]")) == []
    shop.run()  # counts everything again, and nothing twice


def test_a_reset_to_the_end_passes_over_what_is_there(shop: Shop) -> None:
    shop.run()
    assert shop.reset("--to", "latest", "--yes").exit_code == 0
    ends = shop.admin.end_offsets(shop.inputs)
    found = patient_offsets.committed_offsets(shop.admin, shop.application_id, shop.inputs)
    assert {tp: committed.offset for tp, committed in found.items()} == ends


def test_nothing_is_reset_while_an_instance_lives(shop: Shop) -> None:
    with shop.app() as app:
        until(lambda: _count(app, "A") == 2)
        refused = shop.reset("--yes")
        assert isinstance(refused.exception, MembersLiveError | StateDirectoryError)
        assert shop.own_topics() != set()
    shop.run()


def test_the_jvm_may_take_over_when_nobody_lives_and_is_told_the_names_of_the_stores(
    shop: Shop,
) -> None:
    never = shop.handover()
    assert (never.exit_code, "logstate never ran it" in never.stderr) == (1, True)
    with shop.app() as app:
        until(lambda: _count(app, "A") == 2)
        assert isinstance(shop.handover().exception, MembersLiveError)
    before = patient_offsets.committed_offsets(shop.admin, shop.application_id, shop.inputs)
    free = shop.handover("--json")
    assert free.exit_code == 0
    (counts,) = json.loads(free.stdout)["stores"]
    assert (counts["name"], counts["name_on_the_jvm"]) == ("counts", "counts")
    assert patient_offsets.committed_offsets(shop.admin, shop.application_id, shop.inputs) == before
    said = shop.handover().stdout
    assert "start Kafka Streams with application.id=" in said
    assert "group.protocol=streams only if" in said


def test_wrong_arguments_are_answered(shop: Shop) -> None:
    assert isinstance(shop.reset("--to", "yesterday").exception, ConfigError)
    assert isinstance(shop.reset("--yes").exception, TopicError)  # it never ran
    assert isinstance(shop.plan("counts", "--renamed", "counts").exception, ConfigError)
    missing = shop.plan("counts", "--command-config", "none.properties")
    assert isinstance(missing.exception, ConfigError)
