"""Where a process kills itself: between two steps of a tick, or of an emission of late records.

A file names the round and the step. Of all processes of the application the first one that is about
to make the step in that round dies: of a tick only steps that follow it count, of late records only
those that follow the first of them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, NamedTuple

from logstate.changelog.state import TaskState
from logstate.contracts.late_record import LateRecord
from logstate.kafka.admin import KafkaAdmin
from logstate.kafka.producer import KafkaTransactionalProducer
from logstate.task.task import Task

_COMMIT = ("freeze", "begin", "produce", "flush", "send_offsets", "commit", "committed")
#: the process dies before the step; "end": after the last one. Late records change no rows.
STEPS = {
    "tick": ("committed_so_far", "end_offsets", "tick", "emit", *_COMMIT, "apply", "end"),
    "late": ("emit", *_COMMIT, "end"),
}
_LAST = {"tick": "apply", "late": "committed"}
_CALLS: tuple[tuple[type, str], ...] = (
    (KafkaAdmin, "committed_so_far"),
    (KafkaAdmin, "end_offsets"),
    (Task, "tick"),
    (Task, "freeze"),
    (KafkaTransactionalProducer, "begin"),
    (KafkaTransactionalProducer, "produce"),
    (KafkaTransactionalProducer, "flush"),
    (KafkaTransactionalProducer, "send_offsets"),
    (KafkaTransactionalProducer, "commit"),
    (Task, "committed"),
    (TaskState, "apply"),
)


class Point(NamedTuple):
    """The next kill."""

    number: int
    kind: str
    step: str


def choose(folder: Path, point: Point | None) -> None:
    """Name the next kill; None: there is none."""
    (folder / "next").write_text("" if point is None else " ".join(map(str, point)))
    (folder / "next").replace(folder / "point")


def is_killed(folder: Path, number: int) -> bool:
    """Return whether the process of a round is dead."""
    return (folder / f"killed-{number}").exists()


class Kills:
    """The kills in one process, whose calls are wrapped."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        #: the newest round whose clicks, tick and late clicks have come
        self._reached = {"clicks": 0, "tick": 0, "late": 0}
        for owner, name in _CALLS:
            setattr(owner, name, self._wrapped(getattr(owner, name), name))

    def __reduce__(self) -> tuple[Callable[..., Kills], tuple[str]]:
        return kills_in, (str(self._folder),)

    def saw(self, _: str, value: str) -> bool:
        """Note a click, ``page round``; True, for a filter."""
        self._note("clicks", int(value.split()[1]))
        return True

    def final(self, window: Any, _: object) -> str:
        """Return the name of a final result."""
        self._die_before("emit", "tick", "clicks")
        return f"{window.key}@{window.start_ms}"

    def late(self, late: LateRecord[str, str]) -> str:
        """Return the name of a late record."""
        self._note("late", int(late.value.split()[1]))
        self._die_before("emit", "late", "late")
        return f"{late.node} {late.key} {late.value}"

    def _note(self, what: str, number: int) -> None:
        self._reached[what] = max(self._reached[what], number)

    def _wrapped(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        precedes_tick = name in STEPS["tick"][:3]

        @wraps(call)
        def wrapped(*arguments: Any, **options: Any) -> Any:
            self._die_before(name, "tick", "clicks" if precedes_tick else "tick")
            self._die_before(name, "late", "late")
            result = call(*arguments, **options)
            if name == "tick":
                self._note("tick", self._reached["clicks"])
            for kind, last in _LAST.items():
                if name == last:
                    self._die_before("end", kind, kind)
            return result

        return wrapped

    def _die_before(self, step: str, kind: str, follows: str) -> None:
        try:
            number, *point = (self._folder / "point").read_text().split()
        except (FileNotFoundError, ValueError):
            return
        if point != [kind, step] or self._reached[follows] != int(number):
            return
        try:
            os.close(os.open(self._folder / f"killed-{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


@cache
def kills_in(folder: str) -> Kills:
    """Return the kills of this process."""
    return Kills(folder)
