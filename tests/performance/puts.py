"""Instructions of a put, with a TTL and without: of the store alone, commits included.

    python -m tests.performance.puts --keys 500 --ttl 3600000

A task puts rows of random keys, every key once before, and a row per millisecond of event time.
Each 3,000 puts it commits, deletes what has expired and takes the rows over, in memory. With a
short TTL entries of the index are due while their rows are refreshed.
"""

from __future__ import annotations

import argparse
import sys
from datetime import timedelta
from random import Random
from typing import Any

from logstate import (
    Processor,
    Record,
    StreamsBuilder,
    counter_store,
    key_value_store,
    timestamped_key_value_store,
)
from logstate.changelog.task_state import open_task_state
from logstate.contracts.clients import TopicDescription
from logstate.contracts.clock import SystemClock
from logstate.contracts.records import TaskId
from logstate.contracts.stores import ValueAndTimestamp
from logstate.task.task import Task
from logstate.topics.bound_plan import bind
from tests.performance.instructions import counted

_COMMIT = 3_000
_FEW, _MANY = 2 * _COMMIT, 6 * _COMMIT
STORES = ("key-value", "table", "counter")


class _Keep(Processor[str, str, str, str]):
    """Has the store; the puts come from outside."""

    def process(self, record: Record[str, str]) -> None:
        """No record arrives."""


def _declared(kind: str, ttl: timedelta | None) -> Any:
    if kind == "key-value":
        return key_value_store("rows", str, str, ttl=ttl)
    if kind == "table":
        return timestamped_key_value_store("rows", str, str, ttl=ttl)
    return counter_store("rows", str, ttl=ttl)


def work(kind: str, ttl_ms: int | None, keys: int, puts: int) -> None:
    """What is counted: ``puts`` puts of a task's store, and all that comes before them."""
    ttl = None if ttl_ms is None else timedelta(milliseconds=ttl_ms)
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(
        _Keep, stores=(_declared(kind, ttl),), key=str, value=str
    )
    plan = bind(builder.build(), "puts", {"in": TopicDescription("in", 1)})
    task_id = TaskId(0, 0)
    stores = plan.sub_topology(task_id).stores
    task = Task(
        task_id,
        [plan.sub_topology(task_id)],
        plan.input_partitions(task_id),
        application_id="puts",
        clock=SystemClock(),
        open_state=lambda context: open_task_state(stores, context, state_dir=None),
        partition_counts=plan.partition_counts,
    )
    task.state.restored()  # as a start does: rows are counted from here on
    task.start_at(dict.fromkeys(task.partitions, 0))
    store: Any = task.state.stores["rows"]
    random, names = Random(1), [f"key-{number:06}" for number in range(keys)]
    order = (names + [names[random.randrange(keys)] for _ in range(_MANY)])[: keys + puts]
    put, add = store.put, getattr(store, "add", None)
    for time, key in enumerate(order):
        task.timestamp = task.stream_time = time
        if add is not None:
            add(key)
        elif kind == "table":
            put(key, ValueAndTimestamp(key, time, None))
        else:
            put(key, key)
        if (time - keys) % _COMMIT == 0:
            task.committed(task.freeze(), {})
            task.state.apply()


def instructions(kind: str, ttl_ms: int | None, keys: int) -> float:
    """Instructions per put."""
    arguments = [kind, "--keys", str(keys), *([] if ttl_ms is None else ["--ttl", str(ttl_ms)])]
    few, many = (
        counted("tests.performance.puts", *arguments, "--inside", str(puts))
        for puts in (_FEW, _MANY)
    )
    return (many - few) / (_MANY - _FEW)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.performance.puts")
    parser.add_argument("stores", nargs="*", choices=[*STORES, []])
    parser.add_argument("--ttl", type=int, default=None, metavar="MS", help="default: an hour")
    parser.add_argument("--keys", type=int, default=500)
    parser.add_argument("--inside", type=int, metavar="PUTS", help="do the work, count nothing")
    a = parser.parse_args()
    if a.inside is not None:
        work(a.stores[0], a.ttl, a.keys, a.inside)
        return
    for kind in a.stores or STORES:
        plain = instructions(kind, None, a.keys)
        expiring = instructions(kind, a.ttl or 3_600_000, a.keys)
        print(
            f"{kind}: {plain:,.0f} per put, {expiring:,.0f} with a TTL: {expiring / plain:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
