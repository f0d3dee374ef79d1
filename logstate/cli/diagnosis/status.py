"""``logstate status`` and ``lag``: show instances, tasks and stages, and the lag."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import typer

from logstate.cli.shared.options import ApplicationId, Bootstrap, CommandConfig, Json
from logstate.cli.shared.printing import print_json, print_table, print_text
from logstate.cli.shared.stored_state import client_settings, cluster_of, with_manifest
from logstate.contracts.clients import Admin, run_steps
from logstate.contracts.clock import date_of
from logstate.contracts.open_rows import OPEN_ROWS_MAX

if TYPE_CHECKING:
    from logstate.directory.instance_info import InstanceInfo, TaskInfo
    from logstate.topics.committed_lag import CommittedLag
    from logstate.topics.manifest_changes import Manifest

#: exit status if a task does not run, an instance is silent, or no instance announces itself
NOT_ALL_RUNS = 5


def status(
    application_id: ApplicationId,
    bootstrap: Bootstrap,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """List the instances of an application, their tasks and stages, and its lag.

    Example: `logstate status --application-id shop --bootstrap broker-1:9092`. Only instances that
    answer queries (serve=, --serve) announce themselves in a topic and are listed. The lag is that
    of the committed offsets. Takes one to five seconds; nothing is changed. Ends with status 5 if a
    task does not run, an instance is silent, or none is listed.
    """
    from logstate.contracts.clock import SystemClock
    from logstate.directory.instance_info import describe_instances, tasks_of
    from logstate.kafka.group_offsets import committed_offsets
    from logstate.topics.committed_lag import committed_lags

    settings = {"bootstrap.servers": bootstrap, **client_settings(command_config)}
    ask = partial(committed_offsets, settings, application_id)
    cluster = cluster_of(bootstrap, command_config)

    def find(
        admin: Admin, stored: Manifest | None
    ) -> tuple[list[CommittedLag], list[InstanceInfo]]:
        behind = run_steps(committed_lags(admin, ask, application_id, stored))
        return behind, describe_instances(application_id, cluster, admin, SystemClock())

    behind, seen = with_manifest(application_id, bootstrap, command_config, find)
    tasks = tasks_of(seen)
    if as_json:
        print_json({"application_id": application_id, **as_plain_data(seen, tasks, behind)})
    else:
        _print(seen, tasks, behind)
    raise typer.Exit(0 if all_runs(seen, tasks) else NOT_ALL_RUNS)


def lag(
    application_id: ApplicationId,
    bootstrap: Bootstrap,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Print the lag of each partition that an application reads, by its committed offsets.

    Example: `logstate lag --application-id shop --bootstrap broker-1:9092`. Offsets include
    transaction markers, so the lag of the application's own topics may stay at 1 or 2 with nothing
    left to read. It need not run; nothing is changed.
    """
    from rich.table import Table

    from logstate.kafka.group_offsets import committed_offsets
    from logstate.topics.committed_lag import committed_lags

    settings = {"bootstrap.servers": bootstrap, **client_settings(command_config)}
    ask = partial(committed_offsets, settings, application_id)

    def check(admin: Admin, stored: Manifest | None) -> None:
        found = run_steps(committed_lags(admin, ask, application_id, stored))
        if as_json:
            rows = [one._asdict() for one in found]
            print_json({"application_id": application_id, "partitions": rows})
            return
        table = Table("topic", "partition", "committed", "end", "lag")
        for one in found:
            table.add_row(*("nothing" if cell is None else str(cell) for cell in one))
        print_table(table)
        print_text(f"{sum(one.lag for one in found):,} behind in {len(found)} partitions")

    with_manifest(application_id, bootstrap, command_config, check)


def all_runs(seen: Sequence[InstanceInfo], tasks: Sequence[TaskInfo]) -> bool:
    """Whether there are tasks, and every one of them runs on an instance that is alive."""
    is_whole = all(one.is_alive for one in seen) and all(one.stage == "running" for one in tasks)
    return bool(tasks) and is_whole


def as_plain_data(
    seen: Sequence[InstanceInfo], tasks: Sequence[TaskInfo], behind: Sequence[CommittedLag]
) -> dict[str, Any]:
    """Return the status as data for JSON."""
    return {
        "instances": [
            {
                "instance": entry.instance,
                "address": entry.address,
                "is_alive": is_alive,
                "workers": entry.workers,
                "rack": entry.rack,
                "version": entry.version,
                "tasks": sorted(entry.tasks),
            }
            for entry, is_alive in seen
        ],
        "tasks": [_plain_task(task) for task in tasks],
        "lag": sum(one.lag for one in behind),
        "partitions": [one._asdict() for one in behind],
        "all_runs": all_runs(seen, tasks),
    }


def _plain_task(task: TaskInfo) -> dict[str, Any]:
    from msgspec.structs import asdict

    open_rows = {node: asdict(one) for node, one in task.open_rows.items()}
    return {
        **task._asdict(),
        "partition_times": dict(task.partition_times),
        "open_rows": open_rows,
    }


def _print(
    seen: Sequence[InstanceInfo], tasks: Sequence[TaskInfo], behind: Sequence[CommittedLag]
) -> None:
    from rich.table import Table

    if seen:
        table = Table("instance", "address", "", "workers", "rack", "version", "tasks")
        for entry, is_alive in seen:
            sign = "alive" if is_alive else "silent"
            cells = (entry.workers, entry.rack, entry.version, len(entry.tasks))
            table.add_row(entry.instance, entry.address, sign, *map(str, cells))
        print_table(table)
        _print_tasks(tasks)
    else:
        print_text(
            "No instance announces itself: none runs, or none that answers queries (--serve)."
        )
    print_text(f"{sum(one.lag for one in behind):,} behind in {len(behind)} partitions")


def _print_tasks(tasks: Sequence[TaskInfo]) -> None:
    from rich.table import Table

    table = Table(
        "task", "stage", "instance", "behind", "to restore", "stream time", "standbys", "remark"
    )
    for one in tasks:
        lag = "" if one.lag is None else f"{one.lag:,}"
        restore = f"{one.restore_records:,}" if one.restore_records else ""
        standbys = ", ".join(one.standbys)
        time = "" if one.stream_time_ms is None else date_of(one.stream_time_ms)
        remark = "; ".join(filter(None, (one.remark, _wait_text(one), _open_text(one))))
        table.add_row(
            one.task, one.stage or "none", one.instance, lag, restore, time, standbys, remark
        )
    print_table(table)


def _wait_text(task: TaskInfo) -> str:
    """Return what the records of a task wait for; empty if they do not wait."""
    if not task.waits_for:
        return ""
    return f"has waited {task.waits_ms / 1000:.0f} s for {', '.join(task.waits_for)}"


def _open_text(task: TaskInfo) -> str:
    """Return how much waits for stream time, and what of it closes first; empty if nothing does."""
    found = [
        (one.next_ms, node, one) for node, one in task.open_rows.items() if one.next_ms is not None
    ]
    if not found:
        return ""
    next_ms, node, first = min(found, key=itemgetter(0, 1))
    count = min(sum(one.count for _, _, one in found), OPEN_ROWS_MAX)
    many = f"{count:,} or more" if count == OPEN_ROWS_MAX else f"{count:,}"
    time = "" if first.stream_time_ms is None else f", which is {date_of(first.stream_time_ms)}"
    return f"{many} open; first closes {node} at stream time {date_of(next_ms)}{time}"
