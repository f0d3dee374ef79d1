"""Reads every store now and then: ``python -m tests.campaigns.soak.reader BOOTSTRAP SECONDS``.

One process for all reads: what a read leaves behind adds up there. Prints a JSON object per round.
"""

from __future__ import annotations

import gc
import itertools
import json
import sys
import time

import pyarrow as pa

import logstate
from tests.campaigns.soak.flow import APPLICATION, STORES, tracked_objects


def read_all(bootstrap: str) -> int:
    """The rows of all stores."""
    stores = (logstate.read(APPLICATION, store, bootstrap=bootstrap) for store in STORES)
    return sum(pa.table(store).num_rows for store in stores)


def main() -> None:
    """Run until it is killed."""
    bootstrap, seconds = sys.argv[1:]
    for number in itertools.count():
        began_s = time.monotonic()
        rows = read_all(bootstrap)
        gc.collect()
        told = {"reads": number + 1, "rows": rows, "objects": tracked_objects()}
        print(json.dumps(told | {"allocated_blocks": sys.getallocatedblocks()}), flush=True)
        time.sleep(max(0.0, began_s + float(seconds) - time.monotonic()))


if __name__ == "__main__":
    main()
