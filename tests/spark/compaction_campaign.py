"""Cuts beside a busy log cleaner: ``python -m tests.spark.compaction_campaign --cuts 1000``.

Behind each cut 1 to 100 % of the keys are updated,
deleted, or deleted and written again, isolated ones or a row of adjacent ones, and new keys come;
transactions are aborted in between. Every cut is read at once, while the cleaner is under way,
and after it, by a table that was made at the cut and by the text of the cut; some stores keep
tombstones for 100 ms. A read has to be equal to what the cut covers, or refused, and refused only
if the log has lost one of the cut's records.

With ``--new-keys 50 --cuts 100`` each cut is the newest commit of a store whose log was compacted
once, while 50 new keys come per second and nothing else is written. Every read has to be equal, and
so has a read of the same tables after ``--again-after`` seconds (600), in which keys go on coming.

The last line is JSON; exits with 1 where that fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from threading import Event, Thread
from typing import NamedTuple

import logstate
from logstate.changelog.reading.stored_table import StoredTable
from logstate.contracts.errors import RestoreError
from logstate.contracts.records import TopicPartition
from logstate.kafka.log_reader import log_bounds, read_partition
from logstate.local_broker.broker import LocalBroker
from tests.patience import PATIENCE_S, until
from tests.spark.changelog_writer import ApplicationLog, Change, int64

_EAGER = {
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "100",
    "max.compaction.lag.ms": "100",
}
#: segments close by their size, the smallest that a broker takes, as in production
_ORDINARY = {"min.cleanable.dirty.ratio": "0.01", "segment.bytes": "1048576"}
_ROW = bytes(100)
_CUTS_PER_LOG = 3
_HOUR_MS = 3_600_000


class KeptCut(NamedTuple):
    """A cut, and what is true of it."""

    table: StoredTable
    text: str
    rows: dict[str, int]
    offsets: dict[int, str]
    """Of the records that make the rows."""


class Outcome(Counter[str]):
    """How many reads were equal, refused for a reason, refused without one, and wrong."""


class CutLog:
    """One store, its cuts, and its cleaner."""

    def __init__(self, bootstrap: str, name: str, rng: Random) -> None:
        kept = rng.choice(["100", "60000", "86400000"])
        self._rng = rng
        self._bootstrap = bootstrap
        self._log = ApplicationLog(bootstrap, name, partitions=1)
        self._topic = self._log.add_store("s", config={**_EAGER, "delete.retention.ms": kept})
        self._keys = [b"k%03d" % n for n in range(rng.choice([10, 40, 120]))]
        # Every transaction closes a segment: its events are a second later than those before.
        self._times = count(int(time.time() * 1000) - _HOUR_MS, 1_000)
        self._latest: dict[bytes, tuple[int, int | None]] = {}
        self._commits = count(1)
        self._end = 0
        self._new = count()
        self.cuts: list[KeptCut] = []

    def write(self, changes: list[tuple[bytes, int | None]], *, aborts: bool = False) -> None:
        if not changes:
            return
        time_ms = next(self._times)
        records: list[Change] = [
            (key, None if value is None else int64(value), time_ms) for key, value in changes
        ]
        position = self._log.write(self._topic, records, aborts=aborts)
        if aborts:
            return
        self._end = position
        for at, (key, value) in enumerate(changes, position - len(changes)):
            self._latest[key] = at, value

    def fill(self) -> None:
        """What comes before a cut: before the first one a lot."""
        rng, keys = self._rng, self._keys
        if self.cuts:
            some = rng.sample(keys, rng.choice([0, 1, 3]))
            self.write([(key, rng.randrange(1_000)) for key in some])
            return
        for _ in range(rng.choice([1, 2, 4])):
            if rng.random() < 0.3:
                self.write([(key, -1) for key in rng.sample(keys, 3)], aborts=True)
            some = [key for key in keys if rng.random() < 0.7] or keys
            self.write([(key, rng.randrange(1_000)) for key in some])

    def cut(self) -> None:
        self._log.commit(next(self._commits), {self._topic: self._end})
        table = logstate.read(self._log.application, "s", bootstrap=self._bootstrap)
        live = {key: (at, value) for key, (at, value) in self._latest.items() if value is not None}
        rows = {key.decode(): value for key, (_, value) in live.items() if value is not None}
        offsets = {at: key.decode() for key, (at, _) in live.items()}
        self.cuts.append(KeptCut(table, table.cut, rows, offsets))

    def change(self) -> None:
        """What comes behind a cut."""
        rng, keys = self._rng, self._keys
        total = max(1, round(len(keys) * rng.choice([0.01, 0.05, 0.3, 0.6, 1])))
        first = rng.randrange(len(keys) - total + 1)
        chosen = rng.choice([rng.sample(keys, total), keys[first : first + total]])
        how = rng.choice(["nothing", "update", "delete", "delete and write", "new", "mixed"])
        if rng.random() < 0.4:
            self.write([(key, -1) for key in chosen[:5]], aborts=True)
        if how in ("delete", "delete and write"):
            self.write([(key, None) for key in chosen])
        if how in ("update", "delete and write"):
            self.write([(key, rng.randrange(1_000)) for key in chosen])
        if how == "mixed":
            self.write([(key, rng.choice([None, rng.randrange(1_000)])) for key in chosen])
        if how in ("new", "mixed"):
            self.write([(b"new%04d" % next(self._new), 1) for _ in range(rng.randrange(1, 20))])

    def tick(self) -> None:
        """Close the segment that is written to, so that the cleaner may look at it."""
        self.write([(b"tick", 1)])

    def check(self, outcome: Outcome, first: int = 0) -> None:
        """Read the cuts from one on, as a table that was made then and by its text."""
        for cut in self.cuts[first:]:
            for table in (cut.table, None):
                try:
                    table = table or logstate.read(
                        self._log.application, "s", bootstrap=self._bootstrap, cut=cut.text
                    )
                    found = {row["key"]: row["value"] for row in table.to_arrow().to_pylist()}
                except RestoreError:
                    # What is lost behind the read is no reason for it.
                    is_whole = cut.offsets.keys() <= offsets_left(self._bootstrap, self._topic)
                    outcome["refused_without_a_loss" if is_whole else "refused"] += 1
                    continue
                outcome["equal" if found == cut.rows else "wrong"] += 1


def campaign(bootstrap: str, cuts: int, seed: int, *, passes: int = 9) -> Outcome:
    """Cuts and their reads. ``passes``: how often the cleaner is waited for, 0.2 s each."""
    outcome = Outcome()
    for number in range(-(-cuts // _CUTS_PER_LOG)):
        log = CutLog(bootstrap, f"compaction-{time.time_ns()}", Random(f"{seed} {number}"))
        for _ in range(min(_CUTS_PER_LOG, cuts - number * _CUTS_PER_LOG)):
            log.fill()
            log.cut()
            log.change()
            log.check(outcome, len(log.cuts) - 1)
        outcome["cuts"] += len(log.cuts)
        for at in range(passes):
            log.tick()
            time.sleep(0.2)
            if at == passes // 3:
                log.check(outcome)  # while the cleaner is under way
        log.check(outcome)
    return outcome


class GrowingLog:
    """A store whose log was compacted once, and into which only new keys come."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._bootstrap = bootstrap
        self._log = ApplicationLog(bootstrap, name, partitions=1)
        value = {"format": "bytes", "schema": None}
        self._topic = self._log.add_store("s", value=value, config=_ORDINARY)
        self._users = [f"user-{n:05d}" for n in range(3_000)]
        self._others = [f"other-{n:05d}" for n in range(12_000)]
        self._new: dict[int, int] = {}
        """Position of each commit, and how many new keys it has."""

    def compact(self) -> None:
        """Write some keys several times, and wait until the older records are gone."""
        for keys in (*[self._users] * 6, self._others):
            end = self._log.write(self._topic, [(key.encode(), _ROW) for key in keys])
        until(lambda: len(offsets_left(self._bootstrap, self._topic)) < 17_000, "not compacted")
        self._commit(end, 0)

    @contextmanager
    def growing(self, keys_per_s: float) -> Iterator[None]:
        """Commit new keys until the block ends, as many per second as are wanted."""
        is_over = Event()

        def write() -> None:
            began, done = time.monotonic(), 0
            while not is_over.wait(0.02):
                due = int((time.monotonic() - began) * keys_per_s)
                if due > done:
                    keys = [b"new-%06d" % n for n in range(done, due)]
                    end = self._log.write(self._topic, [(key, _ROW) for key in keys])
                    done = due
                    self._commit(end, done)

        writer = Thread(target=write)
        writer.start()
        try:
            yield
        finally:
            is_over.set()
            writer.join(PATIENCE_S)
            assert not writer.is_alive()

    def _commit(self, end: int, new: int) -> None:
        self._new[end] = new  # before a reader can see the commit
        self._log.commit(len(self._new), {self._topic: end})

    def table(self) -> StoredTable:
        return logstate.read(self._log.application, "s", bootstrap=self._bootstrap)

    def judge(self, table: StoredTable) -> str:
        """What a read is: equal, wrong, or refused, which it is without a loss."""
        new = self._new[json.loads(table.cut)["positions"][self._topic]["0"]]
        wanted = {*self._users, *self._others, *(f"new-{n:06d}" for n in range(new))}
        try:
            rows = table.to_arrow().to_pylist()
        except RestoreError:
            return "refused_without_a_loss"
        are_equal = len(rows) == len(wanted) and {row["key"] for row in rows} == wanted
        return "equal" if are_equal and all(row["value"] == _ROW for row in rows) else "wrong"


def growth(bootstrap: str, cuts: int, keys_per_s: float, again_after_s: float) -> Outcome:
    """Reads of the newest commit while new keys come, and the same reads some time later."""
    log, outcome, tables = GrowingLog(bootstrap, f"growth-{time.time_ns()}"), Outcome(), []
    log.compact()
    with log.growing(keys_per_s):
        for _ in range(cuts):
            tables.append(log.table())
            outcome[log.judge(tables[-1])] += 1
            outcome["cuts"] += 1
        print(json.dumps(outcome), flush=True)
        Event().wait(again_after_s)
        outcome.update(map(log.judge, tables))
    return outcome


def offsets_left(bootstrap: str, topic: str) -> set[int]:
    partition, config = TopicPartition(topic, 0), {"bootstrap.servers": bootstrap}
    bounds = log_bounds(config, [partition])[partition]
    found = read_partition(
        config, partition, start=bounds.start, end=bounds.stable_end, may_skip=True
    )
    return {record.offset() or 0 for records in found for record in records}


def told(outcome: Outcome) -> int:
    """Print the last line; the exit code."""
    names = ("cuts", "equal", "refused", "refused_without_a_loss", "wrong")
    print(json.dumps({name: outcome[name] for name in names}))
    return int(bool(outcome["wrong"] or outcome["refused_without_a_loss"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bootstrap", help="of a broker that runs; else one is started")
    parser.add_argument("--new-keys", type=float, help="per second; nothing else is written")
    parser.add_argument("--again-after", type=float, default=600, help="seconds, of --new-keys")
    given = parser.parse_args()

    def run(bootstrap: str) -> int:
        if given.new_keys:
            return told(growth(bootstrap, given.cuts, given.new_keys, given.again_after))
        return told(campaign(bootstrap, given.cuts, given.seed))

    if given.bootstrap:
        return run(given.bootstrap)
    properties = {"log.cleaner.backoff.ms": "200"}
    with LocalBroker.start(heap="768m", properties=properties) as broker:
        return run(broker.bootstrap)


if __name__ == "__main__":
    sys.exit(main())
