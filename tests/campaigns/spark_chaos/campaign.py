"""One run: workers that die, a session that reads, and what each read should have seen."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from logstate.changelog.cuts.cut_value import CutValue, parse_cut
from logstate.changelog.cuts.latest_cut import latest_cut
from logstate.changelog.spark import session, tables
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import TopicPartition
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import changelog_topic
from logstate.kafka.cluster import KafkaCluster
from logstate.kafka.log_reader import log_bounds
from logstate.local_broker.broker import LocalBroker
from tests.campaigns.chaos.environment import brokers_that_start_fast
from tests.campaigns.chaos.schedule import Event, events
from tests.campaigns.chaos.workers import Workers
from tests.campaigns.spark_chaos.feeder import StoreFeeder
from tests.campaigns.spark_chaos.flow import INPUTS, OUTPUTS, PARTITIONS, topology
from tests.campaigns.spark_chaos.logs import Logs
from tests.campaigns.spark_chaos.oracle import COLUMNS, Oracle, Rows, inputs_of_tasks, without_place

WORKERS = 3
#: with these every record that was written stays, so no refusal has a cause
WITHOUT_CLEANER = {"log.cleaner.enable": "false"}
_GROUPS = {
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "200",
}
_SPARK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
}
_KILLS = {"sigkill": 34, "sigkill_two": 6, "sigkill_disk_lost": 8}
#: one in so many reads is of a cut that was read before, not of the newest
_AGAIN_ONE_IN = 4
_A_FEW = 5
#: how a refusal begins whose cause is that the owner has deleted what expired
_TRIMMED = "the log begins at"
_STORES_AT_ONCE = 4
_START_LIMIT_S = 300.0
_STALL_SECONDS = "180"
#: stores that count the same records
_TWINS = ("counts", "checks")


@dataclass
class Cut:
    """A cut, and what was read at it: (read, store, rows)."""

    value: CutValue
    text: str
    found: list[tuple[int, str, Rows]] = field(default_factory=list)


class Counted(NamedTuple):
    """A table, and how many rows it had."""

    store: str
    cut: Cut
    frame: DataFrame
    rows: int


@dataclass
class Tally:
    """What a run found."""

    kills: int = 0
    reads: int = 0
    wrong: int = 0
    #: though nothing was removed that the cut covers
    refused: int = 0
    #: refusals of stores from which the application has deleted expired windows since
    trimmed: int = 0
    counts: int = 0
    counts_agree: int = 0
    joins: int = 0
    mismatches: int = 0
    read_again: int = 0
    rows: int = 0
    stores: Counter[str] = field(default_factory=Counter)
    client_errors: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return self.counts_agree == self.counts and not (
            self.wrong or self.refused or self.mismatches or self.client_errors
        )


class Campaign:
    """See the module. ``report`` gets one line per kill and per finding."""

    def __init__(
        self,
        kills: int,
        reads: int,
        seed: int,
        *,
        per_second: int,
        path: Path,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._reads, self._report = reads, report
        self._random = random.Random(seed)
        self._events = events(seed, kills, WORKERS, _KILLS)
        self._prefix = f"spark-chaos-{seed}-{time.time_ns() % 1_000_000}"
        self._topology = topology(self._prefix)
        self.tally = Tally()
        self._cuts: list[Cut] = []
        self._begun = 0
        self._closing = ExitStack()
        with brokers_that_start_fast():
            broker = LocalBroker.start(properties={**_GROUPS, **WITHOUT_CLEANER})
        self._closing.callback(broker.stop)
        self._bootstrap = bootstrap = broker.bootstrap
        module = "tests.campaigns.spark_chaos.worker"
        self._workers = Workers(WORKERS, bootstrap, self._prefix, path, module=module)
        self._closing.callback(self._workers.close)
        self._feeder = StoreFeeder(bootstrap, self._prefix, seed, per_second)
        spark = session("spark-chaos", master="local[2]", conf=_SPARK)
        self._closing.callback(spark.stop)
        spark.sparkContext.setLogLevel("OFF")

    def close(self) -> None:
        """Stop everything."""
        self._closing.close()

    def run(self) -> Tally:
        """Do it."""
        admin = KafkaCluster(self._bootstrap).admin()
        names = [f"{self._prefix}-{topic}" for topic in (*INPUTS, *OUTPUTS)]
        admin.create_topics([NewTopic(name, PARTITIONS, 1, {}) for name in names])
        admin.close()
        for number in range(WORKERS):
            self._workers.start(number)
        self._feeder.start()
        self._wait_for_cut()
        logs = Logs(self._bootstrap, self._inputs())
        self._closing.callback(logs.close)
        killer = threading.Thread(target=self._kill, daemon=True)
        killer.start()
        self._read()
        killer.join(300)
        self._feeder.stop()
        assert self._feeder.undelivered == 0
        for number in list(self._workers.processes):
            self._workers.kill(number)
        self._judge(logs)
        return self.tally

    def _inputs(self) -> list[TopicPartition]:
        topics = {t for ts in inputs_of_tasks(self._topology, self._prefix).values() for t in ts}
        return [TopicPartition(topic, n) for topic in sorted(topics) for n in range(PARTITIONS)]

    def _wait_for_cut(self) -> None:
        """Until every task has committed once."""
        deadline = time.monotonic() + _START_LIMIT_S
        while True:
            try:
                cut = parse_cut(latest_cut(self._bootstrap, self._prefix))
            except LogstateError as error:
                found = str(error)
            else:
                asked = [tp for tp in self._inputs() if "-registration-" in tp.topic]
                if all(cut.inputs.get(tp.topic, {}).get(tp.partition) for tp in asked):
                    return
                found = f"commits of {cut.inputs}"
            if time.monotonic() > deadline:
                raise TimeoutError(f"not every task has committed: {found}")
            self._workers.revive()
            time.sleep(0.2)

    # ------------------------------------------------------------------ kills

    def _kill(self) -> None:
        started = time.monotonic()
        for number, event in enumerate(self._events, 1):
            while self._begun < number * self._reads // (len(self._events) + 1):
                self._pause(0.1)
            self._pause(event.after_s)
            self._do(event)
            self.tally.kills += 1
            self._report(
                f"{time.monotonic() - started:6.1f} s  kill {number}: {event.kind} of"
                f" {list(event.victims)} for {event.lasts_s:.1f} s, beside read {self._begun}"
            )

    def _do(self, event: Event) -> None:
        for victim in event.victims:
            self._workers.kill(victim)
            if event.kind == "sigkill_disk_lost":
                self._workers.disks[victim].lose_everything()
        self._pause(event.lasts_s)
        for victim in event.victims:
            self._workers.start(victim)

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._workers.revive()
            time.sleep(min(0.2, left))

    # ------------------------------------------------------------------ reads

    def _read(self) -> None:
        counted: Counted | None = None
        for number in range(1, self._reads + 1):
            self._begun = number
            cut = self._cut()
            self.tally.reads += 1
            frames = self._read_stores(number, cut)
            if counted is not None:
                self._count_again(counted)
            counted = self._count(number, frames, cut)
            if number % 4 == 0:
                self._join()
        if counted is not None:
            self._count_again(counted)

    @contextmanager
    def _told(self, what: str, cut: Cut, store: str = "") -> Iterator[None]:
        """A refusal is told and counted: is anything gone that the cut covers?"""
        try:
            yield
        except (PySparkException, LogstateError) as error:
            words = " ".join(str(error).split())
            if _TRIMMED in words and self._is_trimmed(store, cut):
                self.tally.trimmed += 1
                return
            self.tally.refused += 1
            age_s = time.time() - cut.value.taken_at_ms / 1000
            self._report(f"{what} of {store} at a cut {age_s:.1f} s old was refused: {words}")

    def _is_trimmed(self, store: str, cut: Cut) -> bool:
        """Whether the application has deleted records of the store since the cut was taken."""
        topic = changelog_topic(self._prefix, store)
        logs = [TopicPartition(topic, n) for n in range(PARTITIONS)]
        found = log_bounds({"bootstrap.servers": self._bootstrap}, logs)
        starts = cut.value.starts[topic]
        return any(found[log].start > starts[log.partition] for log in logs)

    def _read_stores(self, number: int, cut: Cut) -> dict[str, DataFrame]:
        """Some stores at one cut, so that each store has its turn; those that were read."""
        names = sorted(self._topology.stores)
        first = number * _STORES_AT_ONCE
        read: dict[str, DataFrame] = {}
        for store in (names[(first + n) % len(names)] for n in range(_STORES_AT_ONCE)):
            with self._told(f"read {number}", cut, store):
                (frame,) = self._tables([store], cut).values()
                rows = self._rows(self._topology.stores[store], frame)
                cut.found.append((number, store, rows))
                read[store] = frame
                self.tally.stores[store] += 1
                self.tally.rows += rows.total()
        return read

    def _cut(self) -> Cut:
        """The newest; at times one that was read before, of which half are a few reads old."""
        if self._cuts and self._random.randrange(_AGAIN_ONE_IN) == 0:
            self.tally.read_again += 1
            last = self._random.choice((_A_FEW, len(self._cuts)))
            return self._random.choice(self._cuts[-last:])
        text = latest_cut(self._bootstrap, self._prefix)
        self._cuts.append(Cut(parse_cut(text), text))
        return self._cuts[-1]

    def _tables(self, stores: Sequence[str], cut: Cut) -> dict[str, DataFrame]:
        return tables(
            self._prefix,
            stores,
            bootstrap=self._bootstrap,
            cut=cut.text,
            times="ms",
            stallSeconds=_STALL_SECONDS,
        )

    def _rows(self, spec: StoreSpec, frame: DataFrame) -> Rows:
        wanted = frame.select(*COLUMNS[spec.kind])
        if spec.kind == "join_buffer":
            return Rows(
                (bytes(key), without_place(bytes(value))) for key, value in wanted.collect()
            )
        return Rows(tuple(map(_plain, row)) for row in wanted.collect())

    def _count(self, number: int, frames: dict[str, DataFrame], cut: Cut) -> Counted | None:
        """Of one of the tables that were read; it is counted again after the next read."""
        if self.tally.counts >= self._reads // 2 or not frames:
            return None
        store = sorted(frames)[number % len(frames)]
        with self._told("a count", cut, store):
            return Counted(store, cut, frames[store], frames[store].count())
        return None

    def _count_again(self, counted: Counted) -> None:
        with self._told("a second count", counted.cut, counted.store):
            after = counted.frame.count()
            self.tally.counts += 1
            self.tally.counts_agree += counted.rows == after
            if counted.rows != after:
                self._report(f"{counted.store}: counted {counted.rows} and then {after}")

    def _join(self) -> None:
        """Two stores that the same records change, in one cut: they have the same numbers."""
        cut = self._cut()
        with self._told("a join", cut, _TWINS[0]):
            counts, checks = self._tables(_TWINS, cut).values()
            both = counts.alias("a").join(checks.alias("b"), "key", "full")
            pairs = both.selectExpr("key", "a.value", "int(split(b.value, ':')[0])").collect()
            off = [tuple(row) for row in pairs if row[1] != row[2]]
            self.tally.joins += 1
            self.tally.mismatches += bool(off) or not pairs
            if off:
                self._report(f"a join of two states: {off[:3]}")

    # ------------------------------------------------------------------ verdict

    def _judge(self, logs: Logs) -> None:
        newest = self._cuts[-1].value
        asked = [tp for tp in self._inputs() if tp.topic in newest.inputs]
        ends = {tp: newest.inputs[tp.topic].get(tp.partition, 0) for tp in asked}
        logs.wait_for(ends)
        oracle = Oracle(self._topology, self._prefix, logs.entries)
        self._closing.callback(oracle.close)
        wrong: set[int] = set()
        for cut in self._cuts:
            oracle.advance(cut.value)
            for number, store, rows in cut.found:
                difference = oracle.differences(store, rows)
                if difference:
                    wrong.add(number)
                    self._report(f"read {number} was wrong: {difference}")
        self.tally.wrong = len(wrong)
        self.tally.client_errors = list(self._workers.client_errors)
        if self.tally.kills != len(self._events):
            self.tally.client_errors.append(f"{self.tally.kills} of {len(self._events)} kills")
        for store in self._topology.stores.keys() - self.tally.stores.keys():
            self.tally.client_errors.append(f"{store} was never read")
        self._report(f"workers were started {self._workers.starts} times")
        for words, count in self._workers.exits.items():
            self._report(f"a worker ended by itself ({count} times): {words}")


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return bytes(value) if isinstance(value, bytearray) else value
