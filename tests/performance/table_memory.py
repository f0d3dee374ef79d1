"""What the newest records of one changelog partition take in memory while a table is read.

    python -m tests.performance.table_memory --keys 10000000

Records come as from the client, from no broker: each key once, then some again. The last line is
JSON; `rss_mib` is the peak of the process. Exits with 1 if a row is missing.
"""

from __future__ import annotations

import json
import resource
import time
from typing import Any

from logstate.changelog.reading.blocks import sliced
from logstate.changelog.reading.latest_records import LatestRecords
from logstate.changelog.reading.tables import StoreTable, record_batch
from logstate.contracts.records import TopicPartition
from logstate.serdes import json_of
from tests.performance.parser import parser_of
from tests.performance.spark_log import Customer

_BATCH = 10_000


class Record:
    """A record in the shape a consumer gives."""

    __slots__ = ("_at", "_keys")

    def __init__(self, at: int, keys: int) -> None:
        self._at, self._keys = at, keys

    def key(self) -> bytes:
        return b"customer-%08d" % (self._at % self._keys)

    def value(self) -> bytes:
        fields = (self.key(), self._at, b"true" if self._at % 7 else b"false")
        return b'{"customer":"%b","orders":%d,"total":12.5,"is_member":%b,"city":"Oslo"}' % fields

    def offset(self) -> int:
        return self._at

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000 + self._at

    def headers(self) -> None:
        return None


def main() -> int:
    """The command line."""
    parser = parser_of("python -m tests.performance.table_memory", __doc__)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--again", type=float, default=0.1, help="records beyond, as a share")
    arguments = parser.parse_args()
    keys, started = arguments.keys, time.perf_counter()
    table = StoreTable(
        {
            "kind": "timestamped_key_value",
            "key": {"format": "string"},
            "value": json.loads(json.dumps(json_of(Customer).describe())),
        }
    )
    latest = LatestRecords(table, None, 0, log=TopicPartition("changelog", 0))
    records = int(keys * (1 + arguments.again))
    for first in range(0, records, _BATCH):
        last = min(first + _BATCH, records)
        batch: list[Any] = [Record(at, keys) for at in range(first, last)]
        latest.add(batch)
    rows = 0
    columns = table.batch_columns(with_tombstones=False, with_meta=False)
    for block in latest.blocks():
        rows += sum(record_batch(columns, each).num_rows for each in sliced(block, _BATCH))
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = {"keys": keys, "rows": rows, "rss_mib": peak_kib // 1024}
    print(json.dumps({**found, "seconds": round(time.perf_counter() - started)}))
    return 0 if rows == keys else 1


if __name__ == "__main__":
    raise SystemExit(main())
