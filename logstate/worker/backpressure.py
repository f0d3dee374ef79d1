"""Bounding what waits in memory: partitions with too much fetched are paused until it drained."""

from __future__ import annotations

from collections.abc import Iterable

from logstate.contracts.seams import GroupConsumer, Step, Steps
from logstate.task.owned_task import OwnedTask


def balance(consumer: GroupConsumer, tasks: Iterable[OwnedTask], limit: int) -> Steps[None]:
    """Pause partitions with more than ``limit`` records waiting, resume those below half of it.

    A task of several partitions may hold one back for long while it waits for another's records.
    """
    for owned in tasks:
        task = owned.running
        full = [
            tp for tp in owned.partitions if tp not in owned.paused and task.buffered(tp) > limit
        ]
        if full:
            yield Step("pause", consumer.pause, (full,))
            owned.paused.update(full)
        drained = [tp for tp in owned.paused if task.buffered(tp) < limit // 2]
        if drained:
            yield Step("resume", consumer.resume, (drained,))
            owned.paused.difference_update(drained)
