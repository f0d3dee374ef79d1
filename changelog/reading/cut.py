"""The end of a read, by its options: the newest commit, the end of the log, or a given cut."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from logstate.changelog.commit_of_task import clock_of_store, rows_of_store
from logstate.changelog.cuts.cut_value import CutValue
from logstate.changelog.cuts.latest_cut import Ends, ends_at_commits, latest_cut, newest_commits
from logstate.changelog.cuts.logs import ChangelogSource, check_topic_id, log_reader, read_manifest
from logstate.changelog.reading.options import LATEST, LATEST_COMMIT, SourceOptions
from logstate.contracts.errors import ConfigError

__all__ = ["Ends", "ends_of_read", "latest_cut", "newest_clock"]


def ends_of_read(options: SourceOptions, source: ChangelogSource) -> Ends:
    """Return the ends of the requested cut.

    Raises RestoreError if the cut cannot be determined, ConfigError if the given one is invalid.
    """
    given = source.fixed_cut or options.cut
    if isinstance(given, CutValue):
        return _given_ends(given, source)
    taken_at_ms = int(time.time() * 1000)
    config = options.client_config
    bounds = log_reader().log_bounds(config, source.logs)
    if given == LATEST or options.application is None or not source.inputs:
        ends = {tp.partition: one.stable_end for tp, one in bounds.items()}
        return Ends(ends, taken_at_ms=taken_at_ms)
    assert given == LATEST_COMMIT
    _, records = read_manifest(config, options.application)
    commits = newest_commits(config, options.application, [source], records).of_tasks
    ends_of = ends_at_commits(
        config, options.application, source, commits, bounds, options.stall_seconds
    )
    return ends_of._replace(taken_at_ms=taken_at_ms)


def newest_clock(
    config: Mapping[str, Any], application: str, source: ChangelogSource, partition: int
) -> int | None:
    """Return the store's stream time at the newest commit of a task; None if it is unknown."""
    _, records = read_manifest(config, application)
    commits = newest_commits(config, application, [source], records).of_tasks
    return clock_of_store(source.entry, commits[source.task(partition)].clocks)


def _given_ends(cut: CutValue, source: ChangelogSource) -> Ends:
    given = cut.positions.get(source.topic)
    if given is None or given.keys() != set(range(source.partitions)):
        raise ConfigError(
            f"the cut must name an offset for each of the {source.partitions} partitions of "
            f"{source.topic!r}; "
            f"found {dict(given) if given is not None else f'only {sorted(cut.positions)}'}"
        )
    check_topic_id(source.topic, cut.topic_ids.get(source.topic), source.topic_id, "the cut's")
    clocks, rows = {}, {}
    for partition in given:
        known = cut.clocks.get(str(source.task(partition)), {})
        clock = clock_of_store(source.entry, known)
        if clock is not None:
            clocks[partition] = clock
        counted = rows_of_store(source.entry, known)
        if counted is not None:
            rows[partition] = counted
    return Ends(given, clocks, cut.taken_at_ms, cut.starts.get(source.topic, {}), rows)
