"""The newest commit of a task, for readers of its state from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from logstate.changelog.cut import Cut, decode_cut, decode_cut_record
from logstate.contracts.processing import STREAM_TIME


class CommitOfTask(NamedTuple):
    """The data of a task's newest commit."""

    positions: Mapping[str, int]
    """Changelog topic to next offset, of the task's partition."""
    clocks: Mapping[str, int]
    inputs: Mapping[str, int]
    """Input topic to next offset."""
    topic_ids: Mapping[str, str] = {}
    """Input topic to the id that it had."""
    begins: Mapping[str, int] = {}
    """Changelog topic to the first record that the state needs, as far as the cut says."""


def commit_of_task(inputs: Mapping[str, Any], cut_record: bytes | None) -> CommitOfTask:
    """Return the commit from the committed offsets of a task's inputs and its cuts-topic record.

    If one of them was committed without a cut, another process has committed since, and the cut
    of the others is that of an older state: then no position is valid.
    """
    positions: dict[str, int] = {}
    clocks: dict[str, int] = {}
    topic_ids: dict[str, str] = {}
    begins: dict[str, int] = {}
    offsets = {name: int(one.offset) for name, one in inputs.items()}
    for name, one in inputs.items():
        cut = decode_cut(one.metadata, committed_offset=one.offset).cut
        if cut is not None and cut.is_in_cuts_topic:
            cut = _from_record(cut_record, name, cut.offset)
        if cut is None:
            return CommitOfTask(offsets, {}, offsets)
        # A task commits all its inputs at once, so they agree; all of it only ever grows.
        pairs = ((positions, cut.positions), (clocks, cut.clocks), (begins, cut.begins))
        for known, found in pairs:
            known.update({key: max(at, known.get(key, at)) for key, at in found.items()})
        topic_ids.update(cut.topic_ids)
    # Where an input itself is the store's log, its offset is the position.
    return CommitOfTask({**positions, **offsets}, clocks, offsets, topic_ids, begins)


def _from_record(value: bytes | None, topic: str, committed_offset: int) -> Cut | None:
    if value is None:
        return None
    return decode_cut_record(value, topic=topic, committed_offset=committed_offset)


def clock_of_store(entry: Mapping[str, Any], clocks: Mapping[str, int]) -> int | None:
    """A store's clock among those of its task; None if the cut does not know it.

    It is a stream time, or the wall clock of a TTL. A store whose rows expire by stream time has no
    clock before its first commit, but the task has.

    >>> clock_of_store({"name": "seen", "ttl_ms": 10}, {"task:stream_time": 7})
    7
    """
    if entry.get("ttl_by") == "wall_clock":
        return _of_store("wall_clock", entry, clocks)
    found = _of_store("store", entry, clocks)
    if found is None and entry.get("ttl_ms") is not None:
        return clocks.get(STREAM_TIME)
    return found


def rows_of_store(entry: Mapping[str, Any], clocks: Mapping[str, int]) -> int | None:
    """How many rows a store has at a commit of its task; None if the commit does not say it.

    >>> rows_of_store({"name": "spend"}, {"store:spend": 7, "rows:spend": 42})
    42
    """
    return _of_store("rows", entry, clocks)


def _of_store(kind: str, entry: Mapping[str, Any], clocks: Mapping[str, int]) -> int | None:
    names = (entry.get("name"), *entry.get("formerly", ())[::-1], entry.get("logged_as"))
    return next((clocks[f"{kind}:{name}"] for name in names if f"{kind}:{name}" in clocks), None)
