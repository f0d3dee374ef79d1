"""Writing a folder: the stores are given the records, left in the middle, and asked at the end."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from logstate.contracts.processing import STREAM_TIME
from tests.stored_formats.stores import COMMIT_EVERY, STORES
from tests.stored_formats.task import StoresOfTask, rows_on_disk
from tests.stored_formats.written import Moment, Seen, WrittenStore
from tests.unit.changelog.store_kinds import Input

#: commits that the state directory stands for: all but one, and a rest that is no whole commit
APPLIED = 4


class Written(NamedTuple):
    """Stores that were written, and the state directory that was left meanwhile."""

    stores: dict[str, WrittenStore]
    state: Path
    on_disk: list[tuple[bytes, bytes]]


def write(names: Sequence[str], inputs: Sequence[Input], scratch: Path) -> Written:
    """Give stores records, as the code of today does; ``scratch`` is an empty directory."""
    kinds = [STORES[name] for name in names]
    left = APPLIED * COMMIT_EVERY
    task = StoresOfTask(scratch / "task", kinds)
    task.process(inputs[: left // 2])
    task.state.apply()
    task.backend.flush()  # some rows lie in a table file, later ones in the log of writes
    task.process(inputs[left // 2 : left])
    task.leave(scratch / "state")
    then = {name: _seen(task, name, "left", inputs[:left]) for name in names}
    task.process(inputs[left:])
    task.commit()
    now = {name: _seen(task, name, "end", inputs) for name in names}
    rows = {name: task.rows(name) for name in names}
    task.close()
    every = StoresOfTask(scratch / "every", kinds, logs_every_write=True)
    every.process(inputs)
    every.commit()
    every.close()
    stores = {
        name: WrittenStore(
            {"commit": task.logs[name], "update": every.logs[name]},
            rows[name],
            {"left": then[name], "end": now[name]},
        )
        for name in names
    }
    return Written(stores, scratch / "state", _on_disk(scratch))


def _on_disk(scratch: Path) -> list[tuple[bytes, bytes]]:
    """The rows of a copy: opening a database changes its files."""
    shutil.copytree(scratch / "state", scratch / "looked-at")
    return rows_on_disk(scratch / "looked-at")


def _seen(task: StoresOfTask, name: str, at: Moment, inputs: Sequence[Input]) -> Seen:
    time = max(one.time for one in inputs)
    expires = task.kinds[name].spec.ttl_ms is not None
    clocks = {
        key: clock
        for key, clock in task.clocks().items()
        if key.endswith(f":{name}") or (expires and key == STREAM_TIME)
    }
    return Seen(at, time, clocks, len(task.logs[name]), task.answers(name, time))
