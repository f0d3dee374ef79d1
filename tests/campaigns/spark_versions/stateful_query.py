"""Stateful queries over a store's changes, into Delta and into files, and a join: a program.

``numbered`` gives each change of a key its number, from the state of the query, so a change that is
processed twice, or not at all, shows in the output. ``joined`` joins two stores in each
micro-batch at one cut. The program reports each batch of each query until it is killed; with
``is_last`` it takes in all that is there and reports the output.

    python stateful_query.py '{"bootstrap": …, "application": …, "sinks": ["delta", "parquet"], …}'
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from late_python import again_where_python_was_late, run_available
from plain_rows import rows
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType
from steps import changes_of, report, session_of

from logstate.changelog.spark import tables

_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_OUTPUT = "key double, number bigint, value bigint"
_LOOK_S = 0.2


class Numbering(StatefulProcessor):
    """Numbers the changes of each key in the order of their offsets."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count bigint")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        (number,) = self._count.get() if self._count.exists() else (0,)
        for row in sorted(rows, key=lambda row: row["_offset"]):
            number += 1
            yield Row(key=row["key"], number=number, value=row["value"])
        self._count.update((number,))


def numbered(changes: Any) -> Any:
    """A row for each change: its key, its number and its value."""
    return changes.groupBy("_key", "_partition").transformWithState(
        statefulProcessor=Numbering(),
        outputStructType=StructType.fromDDL(_OUTPUT),
        outputMode="append",
        timeMode="none",
    )


def joined(given: dict[str, Any]) -> Callable[[Any, int], None]:
    """A function for ``foreachBatch``: both stores at one cut agree, and cover the batch."""

    def take(batch: Any, batch_id: int) -> None:
        found = tables(
            given["application"],
            ["spend", "twice"],
            bootstrap=given["bootstrap"],
            includeMeta="true",
            includeTombstones="true",
        )
        spend, twice = found["spend"].alias("a"), found["twice"].alias("b")
        same_row = "a.key <=> b.key and a._partition = b._partition"
        pairs = spend.join(twice, on=_expr(same_row), how="full")
        differing = pairs.where("not (2 * a.value <=> b.value)").count()
        newest = batch.groupBy("_key", "_partition").agg({"_offset": "max"})
        reached = spend.groupBy("_partition").agg({"_offset": "max"})
        behind = newest.join(reached, "_partition", "left")
        behind = behind.toDF("_partition", "_key", "changed", "reached")
        late = behind.where("reached is null or changed > reached").count()
        report("joined", batch_id, pairs.count(), differing, late)

    return take


def _expr(text: str) -> Any:
    from pyspark.sql import functions as f

    return f.expr(text)


def main(told: str) -> None:
    given = json.loads(told)
    settings = {**given["settings"], "spark.sql.streaming.stateStore.providerClass": _STATE_STORE}
    session = session_of(given["master"], settings, given["classes"])
    writers = {}
    for sink in given["sinks"]:
        target = f"{given['folder']}/{sink}"
        writer = numbered(changes_of(session, given)).writeStream.format(sink)
        writers[sink] = writer.option("path", target)
    writers["joined"] = changes_of(session, given).writeStream.foreachBatch(joined(given))
    for name, writer in writers.items():
        writer.option("checkpointLocation", f"{given['folder']}/checkpoint-{name}")
    if given["is_last"]:
        for writer in writers.values():
            run_available(writer)
        for sink in given["sinks"]:
            found = session.read.format(sink).load(f"{given['folder']}/{sink}")
            report("rows", sink, rows(found.select("key", "number", "value")))
        session.stop()
        return
    again_where_python_was_late(lambda: watch(writers))


def watch(writers: dict[str, Any]) -> None:
    """Run the queries and report their batches, until one fails."""
    queries = {name: writer.start() for name, writer in writers.items()}
    seen: dict[str, int] = {}
    try:
        while True:
            for name, query in queries.items():
                if (failure := query.exception()) is not None:
                    raise failure
                progress = query.lastProgress
                if progress is not None and seen.get(name) != progress["batchId"]:
                    seen[name] = progress["batchId"]
                    report("batch", name, progress["batchId"], progress["numInputRows"])
            threading.Event().wait(_LOOK_S)
    finally:
        for query in queries.values():
            query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
