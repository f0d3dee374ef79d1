"""Validate the settings of a test driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, get_args

from logstate.changelog.directory import state_root
from logstate.contracts.compatibility import MigrationOptions
from logstate.contracts.errors import ConfigError, check
from logstate.contracts.setting_rules import (
    application_id,
    choice,
    count,
    emit_interval,
    share,
    shown,
)
from logstate.contracts.worker_config import ChangelogWrites
from logstate.task.error_handlers import ErrorHandlers
from logstate.topology.plan.plan import Topology

_TIME_MAX = 2**63 - 1


def check_driver_settings(topology: object, decisions: MigrationOptions, **given: Any) -> None:
    """Raise ConfigError with all problems at once, like an Application."""
    check(
        _of_topology(topology, given["error_handlers"]),
        application_id("application_id", given["application_id"]),
        count("wall_clock_start_ms", given["wall_clock_start_ms"], least=-1, most=_TIME_MAX),
        choice("changelog_writes", given["changelog_writes"], get_args(ChangelogWrites)),
        count("commit_every", given["commit_every"], least=1),
        count("apply_every", given["apply_every"], least=1),
        _of_topics(given["topics"]),
        emit_interval("window_emit_interval", given["emit_intervals"][0]),
        emit_interval("outer_join_emit_interval", given["emit_intervals"][1]),
        share("trace_ratio", given["trace_ratio"]),
        decisions.problems(),
        _of_state_dir(given["state_dir"]),
    )


def moved_ms(by: object, clock: str) -> int:
    """Return by how many ms a test advances a clock, given a timedelta or whole milliseconds.

    Raises TypeError for anything else, ValueError for a step back.
    """
    ms = by // timedelta(milliseconds=1) if isinstance(by, timedelta) else by
    if not isinstance(ms, int) or isinstance(ms, bool):
        raise TypeError(
            f"{clock} moves by a timedelta, or by whole milliseconds; got {shown(by)}. Write"
            " timedelta(seconds=...)"
        )
    if ms < 0:
        raise ValueError(f"{clock} cannot go back; got {by}")
    return ms


def _of_topology(topology: object, handlers: object) -> Iterator[str]:
    if not isinstance(topology, Topology):
        yield f"topology must be what StreamsBuilder.build() returns; got {shown(topology)}"
        return
    if not isinstance(handlers, ErrorHandlers):
        yield (
            "error_handlers must be ErrorHandlers(...), which says what each handler is for; got"
            f" {shown(handlers)}. Write ErrorHandlers(processing=...)"
        )
        return
    yield from handlers.problems_with(topology.stores.values())


def _of_state_dir(state_dir: object) -> Iterator[str]:
    try:
        if state_dir is not None:  # None: in memory
            state_root(state_dir)
    except ConfigError as error:
        yield from error.problems


def _of_topics(topics: object) -> Iterator[str]:
    if isinstance(topics, str | bytes) or not isinstance(topics, Iterable):
        yield f"topics must be names, or a dict of names and partitions; got {shown(topics)}"
        return
    if isinstance(topics, Mapping):
        for name, partitions in topics.items():
            yield from count(f"topics[{name!r}]", partitions, least=1)
