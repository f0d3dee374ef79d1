"""Named cuts beside a cleaner that never rests: ``python -m tests.spark.cut_campaign --cuts 20``.

An application commits one value for all keys, again and again, each commit in a new segment, of
which a cleaner erases all but the newest. Cuts are made meanwhile. In the end each is read: every
key has to be there, with the value of the one commit that the cut names. The texts of the same
cuts, which nothing protects, are read too: those have to be right as well, or refused.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from logstate.changelog.cuts.named_cuts import create_cut
from logstate.changelog.spark import LogstateDataSource
from logstate.contracts.errors import RestoreError
from logstate.contracts.records import TopicPartition
from logstate.kafka.log_reader import log_bounds, read_partition
from logstate.local_broker.broker import LocalBroker
from tests.patience import PATIENCE_S, until
from tests.spark.changelog_writer import ApplicationLog, int64
from tests.spark.test_compaction import EAGER

KEYS = [b"key-%03d" % n for n in range(100)]


@contextmanager
def committing(log: ApplicationLog, topic: str) -> Iterator[list[int]]:
    """Commits one value for all keys after the other, each closing a segment, until left."""
    is_over, newest = Event(), [0]
    now = int(time.time() * 1000)

    def commit() -> None:
        while not is_over.is_set():
            number = newest[0] + 1
            time_ms = now + 1_000 * number
            end = log.write(topic, [(key, int64(number), time_ms) for key in KEYS])
            log.commit(number, {topic: end})
            newest[0] = number

    writer = Thread(target=commit)
    writer.start()
    try:
        yield newest
    finally:
        is_over.set()
        writer.join(PATIENCE_S)
        assert not writer.is_alive()


def rows_at(log: ApplicationLog, cut: str) -> dict[str, int]:
    """The table at a cut, read as Spark reads it, in this process."""
    options = {"bootstrap": log.bootstrap, "application": log.application, "store": "spend"}
    source = LogstateDataSource({**options, "cut": cut})
    reader = source.reader(source.schema())
    batches = (batch for one in reader.partitions() for batch in reader.read(one))
    return {row["key"]: row["value"] for batch in batches for row in batch.to_pylist()}


def campaign(bootstrap: str, application: str, cuts: int) -> dict[str, Any]:
    """How many cuts were read back, and how the unprotected texts fared. Raises AssertionError."""
    log = ApplicationLog(bootstrap, application)
    topic = log.add_store("spend", config=EAGER)
    log.commit(0, {topic: 0}, partition=1)
    made = []
    with committing(log, topic) as newest:
        for n in range(cuts):
            made.append(create_cut(bootstrap, application, f"cut-{n}"))
            enough = newest[0] + 3
            until(lambda enough=enough: newest[0] >= enough, "nobody commits")
        commits = newest[0]
    refused = 0
    for one in made:
        number = one.cut.inputs[log.source].get(0, 0)
        wanted = {key.decode(): number for key in KEYS} if number else {}
        assert rows_at(log, one.name) == wanted, one.name
        try:
            assert rows_at(log, str(one.cut)) == wanted, one.cut
        except RestoreError:
            refused += 1
    left = records_left(bootstrap, topic)
    return {
        "cuts": cuts,
        "read_back_equal": cuts,
        "unprotected_refused": refused,
        "unprotected_equal": cuts - refused,
        "commits": commits,
        "records_erased": commits * len(KEYS) - left,
    }


def records_left(bootstrap: str, topic: str) -> int:
    config = {"bootstrap.servers": bootstrap}
    log = TopicPartition(topic, 0)
    bounds = log_bounds(config, [log])[log]
    batches = read_partition(config, log, start=bounds.start, end=bounds.stable_end)
    return sum(map(len, batches))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--bootstrap", help="of a broker that runs; else one is started")
    given = parser.parse_args()
    application = f"cut-campaign-{time.time_ns()}"
    if given.bootstrap:
        print(json.dumps(campaign(given.bootstrap, application, given.cuts)))
        return
    properties = {"log.cleaner.backoff.ms": "200"}
    with LocalBroker.start(heap="768m", properties=properties) as broker:
        print(json.dumps(campaign(broker.bootstrap, application, given.cuts)))


if __name__ == "__main__":
    main()
