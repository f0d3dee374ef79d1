"""A query that merges a store's changes into several tables of Delta or Iceberg: a program.

It merges each batch into all tables at the same time, and stops before and after each MERGE until
the parent answers. With ``is_last`` it takes in all that is there, and prints what the tables hold.
It runs in an environment that has one version of PySpark and imports only the modules next to it.

    python merge_query.py '{"bootstrap": …, "application": …, "store": …, "tables": […], …}'
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from late_python import again_where_python_was_late, run_available
from plain_rows import rows
from steps import Stops, changes_of, report, session_of

from logstate.changelog.spark import create_merge_target, merge_into


def merge_into_all(
    tables: list[str], stop_at: Callable[[str, int, int], None]
) -> Callable[[Any, int], None]:
    """A function for ``foreachBatch`` that stops before and after each of its MERGEs."""
    merges = [merge_into(table) for table in tables]

    def take(batch: Any, batch_id: int) -> None:
        def take_into(number: int) -> None:
            stop_at("before", number, batch_id)
            merges[number](batch, batch_id)
            stop_at("after", number, batch_id)

        batch.persist()
        with ThreadPoolExecutor(len(merges)) as threads:
            list(threads.map(take_into, range(len(merges))))
        batch.unpersist()

    return take


def main(told: str) -> None:
    given = json.loads(told)
    session = session_of("local[2]", given["settings"], given["classes"])
    changes, tables, lake = changes_of(session, given), given["tables"], given["lake"]
    if not Path(given["checkpoint"]).exists():  # the first life, which is not killed
        for table in tables:
            create_merge_target(changes, table, using=lake)
    stop_at = (lambda *_: None) if given["is_last"] else Stops(len(tables)).stop_at
    writer = changes.writeStream.foreachBatch(merge_into_all(tables, stop_at))
    writer = writer.option("checkpointLocation", given["checkpoint"])
    if not given["is_last"]:
        again_where_python_was_late(lambda: writer.start().awaitTermination())
        return
    run_available(writer)
    partition = "_changelog_partition" if lake == "iceberg" else "_partition"
    columns = ("key", "value", partition, "_offset")
    report("rows", *(rows(session.table(table).select(*columns)) for table in tables))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
