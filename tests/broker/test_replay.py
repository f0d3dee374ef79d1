"""A failure of an application on the real broker, reproduced in one command, twice the same."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from logstate.app.application import Application
from logstate.cli.main import app as command
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.kafka.group_offsets import committed_offsets
from logstate.topology.dsl.topology_target import load_topology
from tests.patience import until

MODULE = """
from datetime import timedelta
from logstate import ErrorHandlers, StreamsBuilder, TumblingWindows, early, retry, skip

def adding(key, value, total):
    return total + int(value)

def sums(store="sums"):
    builder = StreamsBuilder()
    numbers = builder.stream("TOPIC", key=str, value=str)
    numbers.group_by_key().aggregate(lambda: 0, adding, value=int, store=store, name="adding")
    return builder.build()

def summed(windows=None, **options):
    builder = StreamsBuilder()
    groups = builder.stream("TOPIC", key=str, value=str).group_by_key()
    if windows is not None:
        groups = groups.windowed_by(windows)
    sums = groups.aggregate(lambda: 0, adding, value=int, store="sums", name="adding", **options)
    return builder, sums

def deltas():
    builder, sums = summed(emit="delta", difference=lambda new, old: new - old)
    sums.to_stream().to("TOPIC-out")
    return builder.build()

def changes():
    builder, sums = summed()
    sums.to_change_stream().map_values(lambda one: one.new, value=int).to("TOPIC-out")
    return builder.build()

def panes():
    builder, sums = summed(TumblingWindows(size=timedelta(minutes=1)))
    stream = sums.to_pane_stream(early(records=1), name="panes")
    stream.map(lambda key, pane: (key.key, pane.value), key=str, value=int).to("TOPIC-out")
    return builder.build()

def renamed():
    return sums("totals")

def twice(record):
    return retry(2, backoff=timedelta(milliseconds=1), then=skip)(record)

skipping = ErrorHandlers(processing=skip)
trying = ErrorHandlers(processing=twice)
"""


class Failed:
    """An application that has committed three records and stopped at the fifth."""

    def __init__(self, bootstrap: str, name: str, path: Path, of: str = "sums") -> None:
        self.bootstrap, self.name, self.path, self._of = bootstrap, name, path, of
        self.module, self.topic = name.replace("-", "_"), f"{name}.in"
        text = MODULE.replace("TOPIC", self.topic)
        (path / f"{self.module}.py").write_text(text, encoding="utf-8")
        cluster = KafkaCluster(bootstrap)
        self.admin, self.producer = cluster.admin(), cluster.plain_producer()
        topics = (self.topic, f"{self.topic}-out")
        self.admin.create_topics([NewTopic(topic, 1, 1, {}) for topic in topics])
        self.send((b"ada", b"3"), (b"bob", b"5"), (b"ada", b"4"))
        with self.application():
            until(lambda: self.committed() == 3)
        self.send((b"bob", b"2"), (b"ada", b"four"), (b"bob", b"1"))
        with pytest.raises(LogstateError, match="four"):
            self.application().run()

    def send(self, *values: tuple[bytes, bytes]) -> None:
        self.producer.produce([ProducedRecord(self.topic, 0, *one, 1_000) for one in values])
        self.producer.flush()

    def application(self) -> Application:
        return Application(
            load_topology(f"{self.module}:{self._of}", directory=str(self.path)),
            application_id=self.name,
            bootstrap=self.bootstrap,
            state_dir=self.path / "state",
        )

    def committed(self) -> int | None:
        partition = TopicPartition(self.topic, 0)
        settings = {"bootstrap.servers": self.bootstrap}
        found = committed_offsets(settings, self.name, [partition]).get(partition)
        return None if found is None else found.offset

    def call(self, *more: str, of: str = "sums") -> Result:
        place = ["--application-id", self.name, "--bootstrap", self.bootstrap, "--task", "0_0"]
        return CliRunner().invoke(command, ["replay", f"{self.module}:{of}", *place, *more])

    def replayed(self, *more: str, of: str = "sums", status: int = 7) -> str:
        answer = self.call(*more, of=of)
        assert answer.exit_code == status, (answer.output, answer.exception)
        return answer.stdout


@pytest.fixture(scope="module")
def failed(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failed]:
    path = tmp_path_factory.mktemp("replay")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        patch.syspath_prepend(str(path))
        made = Failed(bootstrap, f"sums-{uuid.uuid4().hex[:10]}", path)
        yield made
        made.producer.close()
        made.admin.close()


SEVEN = "{\"'ada'\": 'ValueAndTimestamp(value=7,"


def test_a_failure_is_reproduced_in_one_command_twice_the_same(failed: Failed) -> None:
    committed = failed.committed()
    told = failed.replayed()
    assert f"failed: {failed.topic}-0@4" in told, told
    assert "'four'" in told
    assert f"{failed.module}.py:6" in told, told
    assert f"before, store 'sums': {SEVEN}" in told, told
    assert failed.replayed() == told
    assert '"processed": ' in failed.replayed("--json")
    assert failed.committed() == committed


def test_one_record_is_run_alone_by_its_position(failed: Failed) -> None:
    for position in (f"{failed.topic}-0@4", "4"):
        assert f"failed: {failed.topic}-0@4" in failed.replayed("--offset", position)
    beyond = failed.call("--offset", "99")
    assert "the partition has the offsets from 0 to 5" in str(beyond.exception)


@pytest.mark.parametrize("handlers", ["skipping", "trying"])
def test_what_error_handlers_pass_over_in_production_is_passed_over(
    failed: Failed, handlers: str
) -> None:
    told = failed.replayed("--error-handlers", f"{failed.module}:{handlers}", status=0)
    assert f"skipped by error handlers: {failed.topic}-0@4" in told
    assert "none failed" in told


def test_a_store_that_is_renamed_here_is_found_where_it_is_told_of(failed: Failed) -> None:
    told = failed.replayed("--renamed", "sums=totals", of="renamed")
    assert f"before, store 'totals': {SEVEN}" in told, told
    assert "before, store 'totals': nothing" in failed.replayed(of="renamed")
    wrong = failed.call("--renamed", "sum=totals", of="renamed")
    assert "the stored stores are ['sums']" in str(wrong.exception)


@pytest.mark.parametrize("of", ["deltas", "changes", "panes"])
def test_a_failure_above_deltas_changes_and_panes_is_reproduced(
    bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    failed = Failed(bootstrap, f"{of}-{uuid.uuid4().hex[:10]}", tmp_path, of)
    told = failed.replayed(of=of)
    assert f"failed: {failed.topic}-0@4" in told, told
    assert "ValueAndTimestamp(value=7," in told.partition("before, store 'sums': {")[2], told
    assert failed.replayed(of=of) == told
    skipped = failed.replayed("--error-handlers", f"{failed.module}:skipping", of=of, status=0)
    assert "none failed" in skipped
    failed.producer.close()
    failed.admin.close()
