"""How many instructions a record costs: the same on a busy machine as on a quiet one.

    python -m tests.performance.instructions W2 W4 --emit commit

One task processes prepared records in a process under valgrind's cachegrind, which counts its
instructions: processing, freezing and taking over the rows, in memory and without a client. What
the start of the process costs falls out: two runs differ in nothing but the number of records. W6
counts the replay of a changelog instead. Needs valgrind on the PATH.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from logstate.changelog.task_state import open_task_state
from logstate.contracts.clients import TopicDescription
from logstate.contracts.clock import SystemClock
from logstate.contracts.records import TaskId, TopicPartition
from logstate.task.task import Task
from logstate.topics.bound_plan import bind
from logstate.topology.plan.plan import Topology
from tests.performance.events import Event, write_events
from tests.performance.logstate_peer import topology
from tests.performance.settings import PARTITIONS
from tests.performance.stages import fetched, table_rows
from tests.performance.workload import WORKLOADS

_FEW, MANY = 3_000, 9_000
_BATCH = 1_000
_KEYS = 500
_APPLICATION = "instructions"
_INPUT, _TABLE, _OUTPUT = "in", "users", "out"
_COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def work(code: str, emit: str, records: int) -> None:
    """What is counted: ``records`` records through one task."""
    program = WORKLOADS[code].program
    names = {"workload": program, "inp": _INPUT, "out": _OUTPUT, "table": _TABLE}
    made = topology(argparse.Namespace(**names, emit=emit))
    task = task_of(made, _APPLICATION, (_INPUT, _OUTPUT, _TABLE))
    events: list[Event] = []
    write_events(MANY, _KEYS, "", events.append)
    if code == "W6":
        rows = [(b"key-%06d" % n, b"v" * 100, n, None) for n in range(records)]
        for first in range(0, records, _BATCH):
            task.state.restore("state", rows[first : first + _BATCH], first + _BATCH)
        task.state.apply()
        return
    stream = TopicPartition(_INPUT, 0)
    if program == "join":
        task.add_records(TopicPartition(_TABLE, 0), fetched(_TABLE, table_rows(_KEYS)))
        task.at_end(stream, 0)
        task.process(_KEYS)
        task.at_end(TopicPartition(_TABLE, 0), _KEYS)
    process_all(task, _INPUT, events[:records])


def task_of(topology: Topology, application_id: str, topics: Iterable[str]) -> Task:
    """A task of the first partition that begins, with its rows in memory."""
    plan = bind(topology, application_id, {t: TopicDescription(t, PARTITIONS) for t in topics})
    task_id = TaskId(0, 0)
    stores = plan.sub_topology(task_id).stores
    task = Task(
        task_id,
        [plan.sub_topology(task_id)],
        plan.input_partitions(task_id),
        application_id=application_id,
        clock=SystemClock(),
        open_state=lambda context: open_task_state(stores, context, state_dir=None),
        partition_counts=plan.partition_counts,
    )
    task.state.restored()  # as a start does: rows are counted from here on
    task.start_at(dict.fromkeys(task.partitions, 0))
    return task


def process_all(task: Task, topic: str, events: Sequence[Event]) -> None:
    """Process records in batches, and commit every third one."""
    for first in range(0, len(events), _BATCH):
        batch = events[first : first + _BATCH]
        fields = [(event.key.encode(), event.value, event.timestamp) for event in batch]
        task.add_records(TopicPartition(topic, 0), fetched(topic, fields, first))
        task.process(_BATCH)
        if first % (3 * _BATCH) == 0:
            task.committed(task.freeze(), {})
            task.state.apply()


def instructions(module: str, *arguments: str, few: int = _FEW, many: int = MANY) -> float:
    """Instructions per record of a module that does its work with ``--inside RECORDS``."""
    counts = [_counted(module, *arguments, "--inside", str(records)) for records in (few, many)]
    return (counts[1] - counts[0]) / (many - few)


def _counted(module: str, *arguments: str) -> int:
    """Return the instructions of a Python module that is run with these arguments."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    answer = subprocess.run(
        [*command, sys.executable, "-m", module, *arguments],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    found = _COUNTED.search(answer.stderr)
    assert found is not None, answer.stderr
    return int(found[1].replace(",", ""))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.performance.instructions")
    parser.add_argument("workloads", nargs="+", choices=("W1", "W2", "W3", "W4", "W5", "W6"))
    parser.add_argument("--emit", choices=("update", "commit"), default="update")
    parser.add_argument("--inside", type=int, metavar="RECORDS", help="do the work, count nothing")
    a = parser.parse_args()
    for code in a.workloads:
        if a.inside is not None:
            work(code, a.emit, a.inside)
        else:
            found = instructions("tests.performance.instructions", code, "--emit", a.emit)
            print(f"{code} {a.emit}: {found:,.0f} per record", flush=True)


if __name__ == "__main__":
    main()
