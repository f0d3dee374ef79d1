"""Cuts beside a busy log cleaner: ``python -m tests.spark.compaction_campaign --cuts 1000``.

Behind each cut 1 to 100 % of the keys are updated,
deleted, or deleted and written again, isolated ones or a row of adjacent ones, and new keys come;
transactions are aborted in between. Every cut is read at once, while the cleaner is under way,
and after it, by a table that was made at the cut and by the text of the cut; some stores keep
tombstones for 100 ms. A read has to be equal to what the cut covers, or refused, and refused only
if the log has lost one of the cut's records. The last line is JSON; exits with 1 where that fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from itertools import count
from random import Random
from typing import NamedTuple

import logstate
from logstate.changelog.reading.stored_table import StoredTable
from logstate.contracts.errors import RestoreError
from logstate.contracts.records import TopicPartition
from logstate.kafka.log_reader import log_bounds, read_partition
from logstate.local_broker.broker import LocalBroker
from tests.spark.changelog_writer import ApplicationLog, Change, int64

_EAGER = {
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "100",
    "max.compaction.lag.ms": "100",
}
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

    def offsets_left(self) -> set[int]:
        partition = TopicPartition(self._topic, 0)
        config = {"bootstrap.servers": self._bootstrap}
        bounds = log_bounds(config, [partition])[partition]
        found = read_partition(
            config, partition, start=bounds.start, end=bounds.stable_end, may_skip=True
        )
        return {record.offset() or 0 for records in found for record in records}

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
                    is_whole = cut.offsets.keys() <= self.offsets_left()
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
    given = parser.parse_args()
    if given.bootstrap:
        return told(campaign(given.bootstrap, given.cuts, given.seed))
    properties = {"log.cleaner.backoff.ms": "200"}
    with LocalBroker.start(heap="768m", properties=properties) as broker:
        return told(campaign(broker.bootstrap, given.cuts, given.seed))


if __name__ == "__main__":
    sys.exit(main())
