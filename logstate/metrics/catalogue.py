"""Every metric there is: its name, kind, unit, labels and meaning, once.

The names are Kafka Streams' in snake case where it has the figure, with the unit or ``_total`` at
the end as Prometheus wants it. Labels take few values: workers, tasks, stores, topics, partitions
of the topology, never keys and never text from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One entry of the catalogue."""

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    meaning: str


_entries: list[Metric] = []


def _metric(name: str, kind: Kind, unit: str, labels: tuple[str, ...], meaning: str) -> Metric:
    metric = Metric(name, kind, unit, labels, meaning)
    _entries.append(metric)
    return metric


_WORKER = ("worker",)
_TASK = ("task",)
_STORE = ("task", "store")

# --- records -------------------------------------------------------------------------------------
RECORDS_CONSUMED = _metric(
    "records_consumed_total",
    "counter",
    "records",
    ("task", "topic"),
    "Records taken from an input or repartition topic and processed.",
)
RECORDS_PRODUCED = _metric(
    "records_produced_total",
    "counter",
    "records",
    ("task", "topic"),
    "Records written to output and repartition topics.",
)
CHANGELOG_RECORDS = _metric(
    "changelog_records_total",
    "counter",
    "records",
    _STORE,
    "Records written to the store's changelog topic.",
)
DROPPED_RECORDS = _metric(
    "dropped_records_total",
    "counter",
    "records",
    _TASK,
    "Records that operators dropped as their rules say: null key, null value, late.",
)
LATE_RECORDS = _metric(
    "late_records_total",
    "counter",
    "records",
    _TASK,
    "The dropped records that came after their window had closed.",
)
SKIPPED_RECORDS = _metric(
    "skipped_records_total",
    "counter",
    "records",
    _TASK,
    "Records rolled back and passed over because an error handler said so.",
)
DEAD_LETTERS = _metric(
    "dead_letters_total",
    "counter",
    "records",
    _TASK,
    "Records rolled back and sent to the dead letter topic.",
)
PUNCTUATE = _metric(
    "punctuate_total", "counter", "calls", _TASK, "Punctuator calls, of stream and of wall time."
)

# --- progress ------------------------------------------------------------------------------------
INPUT_LAG = _metric(
    "input_lag_records",
    "gauge",
    "records",
    ("topic", "partition"),
    "Records between the position and the end of an input partition.",
)
INPUT_BUFFER = _metric(
    "input_buffer_records", "gauge", "records", _TASK, "Records fetched and not yet processed."
)
STREAM_TIME = _metric(
    "stream_time_ms", "gauge", "milliseconds", _TASK, "Largest record timestamp seen by the task."
)
PROCESS_LATENCY = _metric(
    "process_latency_seconds",
    "histogram",
    "seconds",
    _WORKER,
    "Time to process what was fetched in one turn of the worker.",
)
WORKER_ALIVE = _metric(
    "worker_alive", "gauge", "workers", _WORKER, "1 while the worker runs, 0 after it failed."
)

# --- commits -------------------------------------------------------------------------------------
COMMITS = _metric("commit_total", "counter", "commits", _WORKER, "Committed transactions.")
COMMIT_LATENCY = _metric(
    "commit_latency_seconds",
    "histogram",
    "seconds",
    _WORKER,
    "Time from freezing the write buffer to the end of the transaction.",
)
TRANSACTIONS_ABORTED = _metric(
    "transactions_aborted_total",
    "counter",
    "transactions",
    _WORKER,
    "Transactions given up; their records are read and processed again.",
)
APPLY_LATENCY = _metric(
    "apply_latency_seconds",
    "histogram",
    "seconds",
    _WORKER,
    "Time to write committed rows to the local store.",
)

# --- tasks and rebalances ------------------------------------------------------------------------
TASKS = _metric(
    "tasks", "gauge", "tasks", ("worker", "state"), "Tasks of a worker that are in a state."
)
TASK_CREATED = _metric("task_created_total", "counter", "tasks", _WORKER, "Tasks created.")
TASK_CLOSED = _metric("task_closed_total", "counter", "tasks", _WORKER, "Tasks closed.")
REBALANCES = _metric(
    "rebalance_total", "counter", "rebalances", _WORKER, "Changes of the assignment."
)
PARTITIONS_LOST = _metric(
    "partitions_lost_total",
    "counter",
    "partitions",
    _WORKER,
    "Partitions taken away without a chance to commit.",
)

# --- stores --------------------------------------------------------------------------------------
RESTORE_REMAINING = _metric(
    "restore_remaining_records",
    "gauge",
    "records",
    _STORE,
    "Changelog offsets still to be replayed before the task can run.",
)
RESTORED_RECORDS = _metric(
    "restore_total", "counter", "records", _STORE, "Changelog records replayed into the store."
)
WRITE_BUFFER_BYTES = _metric(
    "write_buffer_bytes",
    "gauge",
    "bytes",
    _TASK,
    "Rows held in memory: not yet committed, or committed and not yet applied.",
)

CATALOGUE: tuple[Metric, ...] = tuple(_entries)
BY_NAME: dict[str, Metric] = {metric.name: metric for metric in CATALOGUE}
