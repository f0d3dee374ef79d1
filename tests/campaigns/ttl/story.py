"""One run: rows are written, a tenth of them again, the others expire, and all readers agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from logstate import Application
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.contracts.topic_names import changelog_topic
from logstate.kafka.cluster import KafkaCluster
from logstate.kafka.log_reader import log_bounds
from tests.campaigns.spark_chaos.logs import Logs
from tests.campaigns.toolkit.process import kill, start_module
from tests.campaigns.ttl.application import STORE, TTL, application
from tests.patience import until

_BATCH = 10_000
_FIRST_MS = 1_700_000_000_000
_HALF_MS = int(TTL.total_seconds() * 500)

Rows = dict[str, int]


class Found(NamedTuple):
    """The rows of the store, by the name of a reader."""

    expected: Rows
    by_reader: Mapping[str, Rows]
    #: records of the changelog, tombstones included
    logged: int

    @property
    def wrong(self) -> list[str]:
        """The readers that see anything else."""
        return [name for name, rows in self.by_reader.items() if rows != self.expected]


def run(
    bootstrap: str,
    name: str,
    path: Path,
    keys: int,
    *,
    spark: Callable[[str, str], Rows] | None,
    report: Callable[[str], None] = lambda _: None,
) -> Found:
    """Write the rows, kill the instance, lose its disk, and read the store in every way."""
    topic, log = f"{name}-in", TopicPartition(changelog_topic(name, STORE), 0)
    admin = KafkaCluster(bootstrap).admin()
    admin.create_topics([NewTopic(topic, 1, 1, {})])
    admin.close()
    names = [f"key-{number:07}" for number in range(keys)]
    refreshed = names[::10]
    _send(bootstrap, topic, ((key, 1, _FIRST_MS + at % 1_000) for at, key in enumerate(names)))
    worker = start_module(
        "tests.campaigns.ttl.application", bootstrap, name, path / "lost", log=path / "worker.log"
    )
    try:
        until(lambda: _end_of_log(bootstrap, log) > keys // 2, "half of the rows are not logged")
    finally:
        kill(worker)
    report(f"killed with {_end_of_log(bootstrap, log):,} records in the changelog")
    later = ((key, 2, _FIRST_MS + _HALF_MS + at) for at, key in enumerate(refreshed))
    _send(bootstrap, topic, later)
    _send(bootstrap, topic, [("now", 3, _FIRST_MS + 2 * _HALF_MS + 1_000)])
    expected = {**dict.fromkeys(refreshed, 2), "now": 3}
    owner = application(bootstrap, name, path / "new", serves=True)
    other = application(bootstrap, name, path / "other", serves=True)
    with owner, closing(Logs(bootstrap, [log])) as logs:
        # By key: to read all rows again and again takes the time that the instance needs.
        until(lambda: _has_row(owner, "now"), "the last record is not processed")
        report("the last record is processed")
        hidden = _rows(owner)
        latest = Latest(bootstrap, logs, log)
        # A commit deletes some thousand rows: patience is for the next ones, not for all of them.
        while (left := len(latest.read())) > len(expected):
            until(lambda: len(latest.read()) < left, f"{left} rows left")
        report("the rows that expired are deleted")
        with other:
            by_reader = {
                "store before the deletion": hidden,
                "store": _rows(owner) or _rows(other),
                "changelog": latest.read(),
                "remote query": until(lambda: _remote_rows(other)),
            }
            if spark is not None:
                by_reader["Spark"] = spark(bootstrap, name)
        return Found(expected, by_reader, _end_of_log(bootstrap, log))


def _send(bootstrap: str, topic: str, records: Iterable[tuple[str, int, int]]) -> None:
    producer = KafkaCluster(bootstrap).plain_producer()
    batch: list[ProducedRecord] = []
    for key, value, time in records:
        batch.append(ProducedRecord(topic, 0, key.encode(), value.to_bytes(8), time))
        if len(batch) == _BATCH:
            producer.produce(batch)
            producer.flush()
            batch = []
    producer.produce(batch)
    producer.flush()
    producer.close()


def _end_of_log(bootstrap: str, log: TopicPartition) -> int:
    try:
        return log_bounds({"bootstrap.servers": bootstrap}, [log])[log].stable_end
    except LogstateError:  # no such topic yet
        return 0


def _has_row(app: Application, key: str) -> bool:
    try:
        return app.store(STORE, key=str, value=int).get(key) is not None
    except LogstateError:
        return False


def _rows(app: Application) -> Rows:
    """What the instance itself answers; nothing if it does not have the partition."""
    try:
        return {key: row.value for key, row in app.store(STORE, key=str, value=int).all()}
    except LogstateError:
        return {}


def _remote_rows(app: Application) -> Rows:
    """What an instance is told by the one that has the partition."""
    try:
        return {key: row.value for key, row in app.remote_store(STORE, key=str, value=int).all()}
    except LogstateError:
        return {}


class Latest:
    """What compaction leaves of the changelog: the last record of each key, no tombstones."""

    def __init__(self, bootstrap: str, logs: Logs, log: TopicPartition) -> None:
        self.rows: Rows = {}
        self._bootstrap, self._logs, self._log = bootstrap, logs, log
        self._seen = 0

    def read(self) -> Rows:
        """Return the rows at the end of the changelog; only records that are new are read."""
        self._logs.wait_for({self._log: _end_of_log(self._bootstrap, self._log)})
        entries = self._logs.entries[self._log]
        end = len(entries)
        for at in range(self._seen, end):
            entry = entries[at]
            assert entry.key is not None
            if entry.value is None:
                self.rows.pop(entry.key.decode(), None)
            else:
                self.rows[entry.key.decode()] = int.from_bytes(entry.value)
        self._seen = end
        return self.rows
