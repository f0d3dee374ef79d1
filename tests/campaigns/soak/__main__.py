"""Test whether memory, files or threads grow under a steady load.

Run ``python -m tests.campaigns.soak --minutes 60``.

1,000 records a second through a windowed count with ``suppress``, a session count, a stream join
and a count; two queries over HTTP a second; each store read once a minute by ``logstate.read``. The
last half of the run is fitted with a line per measurement. The end is 1 where one grows faster than
its bound (`slopes.BOUNDS`), where a query failed, or where outputs are missing.

Event time runs ten times as fast as the clock (``--compression``): an hour has the windows of ten.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from logstate.local_broker.broker import LocalBroker
from tests.campaigns.soak.flow import CLICKS, OUTPUTS, VIEWS
from tests.campaigns.soak.slopes import Sample, slopes, table
from tests.campaigns.soak.watch import Asker, Watched, free_address, wait_for
from tests.performance.topics import Topics

PARTITIONS = 4
_LINES = 30


def soak(
    path: Path,
    bootstrap: str,
    *,
    seconds: float,
    records_per_s: int = 1_000,
    compression: int = 10,
    read_every_s: float = 60.0,
    sample_every_s: float = 5.0,
    report: Callable[[str], None] = print,
) -> bool:
    """Run it; whether nothing grew and everything was answered."""
    topics = Topics(bootstrap, PARTITIONS)
    for topic in (CLICKS, VIEWS, *OUTPUTS):
        topics.create(topic)
    address = free_address()
    samples: list[Sample] = []
    with ExitStack() as ends:
        instance = Watched(
            "tests.campaigns.soak.flow", bootstrap, path / "state", address, log=path / "log"
        )
        ends.callback(instance.stop)
        wait_for(instance, "objects")
        load = Watched(
            "tests.campaigns.soak.load",
            bootstrap,
            records_per_s,
            compression,
            log=path / "load.log",
        )
        ends.callback(load.stop)
        asker = Asker(address)
        ends.callback(asker.stop)
        reader = Watched(
            "tests.campaigns.soak.reader",
            bootstrap,
            read_every_s,
            log=path / "reader.log",
            between_prints=True,
        )
        ends.callback(reader.stop)
        wait_for(reader, "reads")
        began_s = time.monotonic()
        while (at_s := time.monotonic() - began_s) < seconds or len(samples) < 3:
            load.check_alive()
            found = instance.measured()
            found |= {f"reader_{name}": value for name, value in reader.measured().items()}
            samples.append((at_s, found))
            with (path / "samples.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps([at_s, found]) + "\n")
            if len(samples) % max(1, int(seconds / sample_every_s / _LINES)) == 0:
                report(f"{at_s / 60:6.1f} min  {json.dumps(found)}")
            time.sleep(sample_every_s)
        written = {topic: topics.end(topic) for topic in OUTPUTS}
    grown = slopes(samples)
    report(table(grown))
    report(f"{asker.answered} queries answered, {len(asker.failed)} failed {asker.failed[:3]}")
    report(f"outputs: {written}")
    is_complete = all(written.values()) and asker.answered > 0 and not asker.failed
    return is_complete and all(slope.is_good for slope in grown)


@contextmanager
def _broker(bootstrap: str | None) -> Iterator[str]:
    if bootstrap:
        yield bootstrap
        return
    with LocalBroker.start(heap="512m") as broker:
        yield broker.bootstrap


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--records-per-s", type=int, default=1_000)
    parser.add_argument("--compression", type=int, default=10, help="of event time")
    parser.add_argument("--read-every-s", type=float, default=60.0)
    parser.add_argument("--bootstrap", help="a broker that runs; else one is started")
    parser.add_argument("--work", type=Path, help="keep state, logs and samples there")
    a = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which stops the other processes
    with tempfile.TemporaryDirectory(prefix="soak-") as temporary, _broker(a.bootstrap) as broker:
        path = a.work or Path(temporary)
        path.mkdir(parents=True, exist_ok=True)
        is_good = soak(
            path,
            broker,
            seconds=60 * a.minutes,
            records_per_s=a.records_per_s,
            compression=a.compression,
            read_every_s=a.read_every_s,
            report=lambda line: print(line, flush=True),
        )
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
