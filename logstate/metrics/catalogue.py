"""The catalogue of all metrics: name, kind, unit, labels and meaning.

The names are Kafka Streams' in snake case if it has the metric, with the unit or ``_total`` at
the end as Prometheus recommends. Labels take few values: workers, tasks, stores, topics, partitions
of the topology, never keys and never external text.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]

#: upper bounds in seconds: from a commit on a local broker to one that is close to its timeout
BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


@dataclass(frozen=True, slots=True)
class Metric:
    """One entry of the catalogue."""

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    meaning: str
    #: the upper bounds of a histogram's ranges
    buckets: tuple[float, ...] = BUCKETS_SECONDS

    @property
    def family(self) -> str:
        """The name in Prometheus, where a counter's name has no ``_total``."""
        return self.name.removesuffix("_total")

    @property
    def series_names(self) -> frozenset[str]:
        """Every name that Prometheus derives from it: no other metric can have one of them."""
        return frozenset({self.family, *(self.family + end for end in _ENDINGS[self.kind])})


#: what Prometheus appends to the name of a metric of each kind
_ENDINGS: dict[Kind, tuple[str, ...]] = {
    "counter": ("_total", "_created"),
    "gauge": (),
    "histogram": ("_bucket", "_count", "_sum", "_created"),
}
BY_NAME: dict[str, Metric] = {}


def _listed(kind: Kind, name: str, unit: str, labels: str, meaning: str) -> Metric:
    metric = BY_NAME[name] = Metric(name, kind, unit, tuple(labels.split()), meaning)
    return metric


_counter = partial(_listed, "counter")
_gauge = partial(_listed, "gauge")
_histogram = partial(_listed, "histogram")

# fmt: off

# --- records ------------------------------------------------------------------------------------
RECORDS_CONSUMED = _counter("records_consumed_total", "records", "task topic",
    "Records taken from an input or repartition topic and processed.")
RECORDS_PRODUCED = _counter("records_produced_total", "records", "task topic",
    "Records written to output and repartition topics.")
CHANGELOG_RECORDS = _counter("changelog_records_total", "records", "task store",
    "Records written to the store's changelog topic.")
DROPPED_RECORDS = _counter("dropped_records_total", "records", "task node reason",
    "Records that a node dropped by its rules, by reason.")
DROPPED_LATENESS = _gauge("dropped_lateness_max_ms", "milliseconds", "task node reason",
    "By how much a grace period or a retention was too short for the latest dropped record.")
LATE_RECORDS = _counter("late_records_total", "records", "task",
    "The records that came after their window had closed, once per window: dropped, or emitted.")
LATE_STREAM_RECORDS = _counter("late_stream_records_total", "records", "task stream",
    "The late records that operators emitted as a late stream instead of dropping them.")
LATE_JOINS = _counter("late_join_records_total", "records", "task store",
    "Records of stream joins whose partners in the store may have expired.")
EXPIRED_RESULTS = _counter("expired_results_total", "results", "task store",
    'Final results (emit="close") that expired in their store before they were sent: lost.')
SKIPPED_RECORDS = _counter("skipped_records_total", "records", "task",
    "Records rolled back and skipped because an error handler said so.")
DEAD_LETTERS = _counter("dead_letters_total", "records", "task",
    "Records rolled back and sent to the dead letter topic.")
LOST_RECORDS = _counter("input_records_lost_total", "offsets", "topic",
    "Offsets of an input that were deleted before they were processed, and skipped.")
OPERATOR_INFO = _gauge("operator_info", "operators", "task node operator",
    "1 for each operator without a name of its own; `operator` shows what the `node` does.")
PUNCTUATE = _counter("punctuate_total", "calls", "task",
    "Punctuator calls, of stream and of wall time.")

# --- progress -----------------------------------------------------------------------------------
INPUT_LAG = _gauge("input_lag_records", "records", "topic partition",
    "Records between the position and the end of an input partition.")
INPUT_BUFFER = _gauge("input_buffer_records", "records", "task",
    "Records fetched and not yet processed.")
STREAM_TIME = _gauge("stream_time_ms", "milliseconds", "task",
    "Largest record timestamp seen by the task.")
PARTITION_TIME = _gauge("partition_time_ms", "milliseconds", "topic partition",
    "Largest timestamp of the records processed from an input partition.")
INPUT_WAIT = _gauge("input_wait_ms", "milliseconds", "task",
    "How long fetched records have waited for an input partition without records.")
OPEN_ROWS = _gauge("open_rows", "rows", "task node",
    "Windows, sessions, timers and records of an operator that wait for stream time, up to 1,000.")
NEXT_CLOSE = _gauge("next_close_ms", "milliseconds", "task node",
    "Stream time of the operator at which the first of its open rows closes; -1: none is open.")
OPERATOR_TIME = _gauge("operator_time_ms", "milliseconds", "task node",
    "Stream time of an operator with open rows, as of the last count; -1 before its first record.")
PROCESS_LATENCY = _histogram("process_latency_seconds", "seconds", "worker",
    "Time to process the records fetched in one turn of the worker.")
WORKER_ALIVE = _gauge("worker_alive", "workers", "worker",
    "1 while the worker runs, 0 after it failed.")

# --- commits ------------------------------------------------------------------------------------
COMMITS = _counter("commit_total", "commits", "worker",
    "Committed transactions.")
COMMIT_LATENCY = _histogram("commit_latency_seconds", "seconds", "worker",
    "Time from freezing the write buffer to the end of the transaction.")
TRANSACTIONS_ABORTED = _counter("transactions_aborted_total", "transactions", "worker",
    "Aborted transactions; their records are read and processed again.")
APPLY_LATENCY = _histogram("apply_latency_seconds", "seconds", "worker",
    "Time to write committed rows to the local store.")

# --- tasks and rebalances -----------------------------------------------------------------------
TASKS = _gauge("tasks", "tasks", "worker state",
    "Tasks of a worker that are in a state.")
TASK_CREATED = _counter("task_created_total", "tasks", "worker",
    "Tasks created.")
TASK_CLOSED = _counter("task_closed_total", "tasks", "worker",
    "Tasks closed.")
REBALANCES = _counter("rebalance_total", "rebalances", "worker",
    "Changes of the assignment.")
PARTITIONS_LOST = _counter("partitions_lost_total", "partitions", "worker",
    "Partitions lost without a chance to commit.")

# --- stores -------------------------------------------------------------------------------------
RESTORE_REMAINING = _gauge("restore_remaining_records", "records", "task store",
    "Changelog offsets still to be replayed before the task can run.")
RESTORED_RECORDS = _counter("restore_total", "records", "task store",
    "Changelog records replayed into the store.")
WRITE_BUFFER_BYTES = _gauge("write_buffer_bytes", "bytes", "task",
    "Rows held in memory: not yet committed, or committed and not yet applied.")
# fmt: on

CATALOGUE = tuple(BY_NAME.values())
