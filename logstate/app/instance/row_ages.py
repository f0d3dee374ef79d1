"""Limits for the rows that an instance returns: how old they are, and how many records they lack.

An instance that serves queries returns the rows of all instances, its own and those of the others,
so the limits apply to the tasks of all. A task that reads a repartition topic can be current there
while the tasks that write to the topic lag behind: the ages of all sub-topologies on the way from
the inputs add up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import NamedTuple

from logstate.topology.graph.sub_topology import SubTopology


@dataclass(frozen=True)
class Limits:
    """What a caller of ``is_ready`` allows; None: no limit."""

    #: input records that the rows of one instance lack
    max_lag: int | None = None
    #: since the rows included everything that the inputs contained
    max_age: timedelta | None = None
    #: since the instance knew that its tasks are its own
    max_silence: timedelta | None = None


class RowAge(NamedTuple):
    """How current the rows of one task are that can be read now."""

    #: task id
    task: str
    #: the displayed instance; empty: this one
    where: str
    #: infinite: unknown
    age_ms: float
    #: None: unknown
    lag: int | None
    silence_ms: float = 0.0


def exceeded(
    limits: Limits, rows: Collection[RowAge], upstream: Mapping[int, frozenset[int]]
) -> str | None:
    """Return which limit the rows exceed, and by how much; None if there is none.

    ``upstream``: sub-topology -> those that write to its inputs.
    """
    return (
        _of_silence(limits.max_silence, rows)
        or _of_lag(limits.max_lag, rows)
        or _of_age(limits.max_age, rows, upstream)
    )


def upstream_of(sub_topologies: Iterable[SubTopology]) -> dict[int, frozenset[int]]:
    """Map each sub-topology to those that write to topics that it reads."""
    subs = list(sub_topologies)
    return {
        sub.id: frozenset(
            other.id
            for other in subs
            if other.id != sub.id and not set(other.sink_topics).isdisjoint(sub.source_topics)
        )
        for sub in subs
    }


def _of_silence(most: timedelta | None, rows: Collection[RowAge]) -> str | None:
    oldest_ms = max((one.silence_ms for one in rows), default=0.0)
    if most is None or oldest_ms <= most.total_seconds() * 1000:
        return None
    return f"its data is {oldest_ms / 1000:.1f} s old, {_limit_text(most)}"


def _of_lag(most: int | None, rows: Collection[RowAge]) -> str | None:
    if most is None:
        return None
    lags: dict[str, int] = {}
    for one in rows:
        if one.lag is None:
            return f"task {one.task}{_partition_text(one)} does not know the ends of its inputs yet"
        lags[one.where] = lags.get(one.where, 0) + one.lag
    where, lag = max(lags.items(), key=lambda item: item[1], default=("", 0))
    if lag <= most:
        return None
    whose = f"the rows of {where} lack" if where else "its rows lack"
    return f"{whose} {lag} input records, max_lag allows {most}"


def _of_age(
    most: timedelta | None, rows: Collection[RowAge], upstream: Mapping[int, frozenset[int]]
) -> str | None:
    if most is None:
        return None
    for one in rows:
        if one.age_ms == inf:
            return (
                f"the rows of task {one.task}{_partition_text(one)} have not included everything"
                f" in its inputs since the task came there, {_limit_text(most)}"
            )
    ages = dict[int, float]()
    for one in rows:
        sub_topology = int(one.task.partition("_")[0])
        ages[sub_topology] = max(one.age_ms, ages.get(sub_topology, 0.0))
    oldest_ms = max((_total(sub, ages, upstream, frozenset()) for sub in ages), default=0.0)
    if oldest_ms <= most.total_seconds() * 1000:
        return None
    lagging = max(rows, key=lambda one: one.age_ms)
    where = _partition_text(lagging) if lagging.where else ""
    return (
        f"its data is {oldest_ms / 1000:.1f} s old, most of it because of task {lagging.task}"
        f"{where}, {_limit_text(most)}"
    )


def _total(
    sub_topology: int,
    ages: Mapping[int, float],
    upstream: Mapping[int, frozenset[int]],
    passed: frozenset[int],
) -> float:
    """Return the age of a sub-topology's rows by the inputs of the application."""
    passed |= {sub_topology}  # repartition topics may form a cycle
    before = upstream.get(sub_topology, frozenset()) - passed
    above = (_total(one, ages, upstream, passed) for one in before)
    return ages.get(sub_topology, 0.0) + max(above, default=0.0)


def _partition_text(one: RowAge) -> str:
    return f" at {one.where}" if one.where else ""


def _limit_text(most: timedelta) -> str:
    return f"max_age allows {most.total_seconds():g} s"
