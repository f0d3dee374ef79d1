"""Every metric there is: its name, kind, unit, labels and meaning, once.

The names are Kafka Streams' in snake case where it has the figure, with the unit or ``_total`` at
the end as Prometheus wants it. Labels take few values: workers, tasks, stores, topics, partitions
of the topology, never keys and never text from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One entry of the catalogue."""

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    meaning: str


#: an entry: its name, kind, unit and labels, and below them what it means
_TABLE = """\
# --- records ------------------------------------------------------------------------------------
records_consumed_total      counter   records      task topic
    Records taken from an input or repartition topic and processed.
records_produced_total      counter   records      task topic
    Records written to output and repartition topics.
changelog_records_total     counter   records      task store
    Records written to the store's changelog topic.
dropped_records_total       counter   records      task
    Records that operators dropped as their rules say: null key, null value, late.
late_records_total          counter   records      task
    The dropped records that came after their window had closed.
late_join_records_total     counter   records      task store
    Records of stream joins that came when partners in the store had expired.
expired_results_total       counter   results      task store
    Final results (emit="close") that expired in their store before they were sent: lost.
skipped_records_total       counter   records      task
    Records rolled back and passed over because an error handler said so.
dead_letters_total          counter   records      task
    Records rolled back and sent to the dead letter topic.
punctuate_total             counter   calls        task
    Punctuator calls, of stream and of wall time.
# --- progress -----------------------------------------------------------------------------------
input_lag_records           gauge     records      topic partition
    Records between the position and the end of an input partition.
input_buffer_records        gauge     records      task
    Records fetched and not yet processed.
stream_time_ms              gauge     milliseconds task
    Largest record timestamp seen by the task.
process_latency_seconds     histogram seconds      worker
    Time to process what was fetched in one turn of the worker.
worker_alive                gauge     workers      worker
    1 while the worker runs, 0 after it failed.
# --- commits ------------------------------------------------------------------------------------
commit_total                counter   commits      worker
    Committed transactions.
commit_latency_seconds      histogram seconds      worker
    Time from freezing the write buffer to the end of the transaction.
transactions_aborted_total  counter   transactions worker
    Transactions given up; their records are read and processed again.
apply_latency_seconds       histogram seconds      worker
    Time to write committed rows to the local store.
# --- tasks and rebalances -----------------------------------------------------------------------
tasks                       gauge     tasks        worker state
    Tasks of a worker that are in a state.
task_created_total          counter   tasks        worker
    Tasks created.
task_closed_total           counter   tasks        worker
    Tasks closed.
rebalance_total             counter   rebalances   worker
    Changes of the assignment.
partitions_lost_total       counter   partitions   worker
    Partitions taken away without a chance to commit.
# --- stores -------------------------------------------------------------------------------------
restore_remaining_records   gauge     records      task store
    Changelog offsets still to be replayed before the task can run.
restore_total               counter   records      task store
    Changelog records replayed into the store.
write_buffer_bytes          gauge     bytes        task
    Rows held in memory: not yet committed, or committed and not yet applied.
"""


def _entries(table: str) -> tuple[Metric, ...]:
    lines = [line for line in table.splitlines() if not line.startswith("#")]
    entries = []
    for head, meaning in zip(lines[::2], lines[1::2], strict=True):
        name, kind, unit, *labels = head.split()
        entries.append(Metric(name, cast(Kind, kind), unit, tuple(labels), meaning.strip()))
    return tuple(entries)


CATALOGUE = _entries(_TABLE)
BY_NAME = {metric.name: metric for metric in CATALOGUE}

RECORDS_CONSUMED = BY_NAME["records_consumed_total"]
RECORDS_PRODUCED = BY_NAME["records_produced_total"]
CHANGELOG_RECORDS = BY_NAME["changelog_records_total"]
DROPPED_RECORDS = BY_NAME["dropped_records_total"]
LATE_RECORDS = BY_NAME["late_records_total"]
LATE_JOINS = BY_NAME["late_join_records_total"]
EXPIRED_RESULTS = BY_NAME["expired_results_total"]
SKIPPED_RECORDS = BY_NAME["skipped_records_total"]
DEAD_LETTERS = BY_NAME["dead_letters_total"]
PUNCTUATE = BY_NAME["punctuate_total"]
INPUT_LAG = BY_NAME["input_lag_records"]
INPUT_BUFFER = BY_NAME["input_buffer_records"]
STREAM_TIME = BY_NAME["stream_time_ms"]
PROCESS_LATENCY = BY_NAME["process_latency_seconds"]
WORKER_ALIVE = BY_NAME["worker_alive"]
COMMITS = BY_NAME["commit_total"]
COMMIT_LATENCY = BY_NAME["commit_latency_seconds"]
TRANSACTIONS_ABORTED = BY_NAME["transactions_aborted_total"]
APPLY_LATENCY = BY_NAME["apply_latency_seconds"]
TASKS = BY_NAME["tasks"]
TASK_CREATED = BY_NAME["task_created_total"]
TASK_CLOSED = BY_NAME["task_closed_total"]
REBALANCES = BY_NAME["rebalance_total"]
PARTITIONS_LOST = BY_NAME["partitions_lost_total"]
RESTORE_REMAINING = BY_NAME["restore_remaining_records"]
RESTORED_RECORDS = BY_NAME["restore_total"]
WRITE_BUFFER_BYTES = BY_NAME["write_buffer_bytes"]
