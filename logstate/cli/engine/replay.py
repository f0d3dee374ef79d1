"""``logstate replay``: run a failed record from production again on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from logstate.cli.shared.options import (
    ApplicationId,
    Bootstrap,
    CommandConfig,
    Json,
    Target,
    TopicPrefix,
)
from logstate.cli.shared.printing import print_json, print_text
from logstate.cli.shared.stored_state import client_settings, cluster_of, pair
from logstate.contracts.errors import ConfigError
from logstate.contracts.records import TaskId, TopicPartition

if TYPE_CHECKING:
    from logstate.cli.engine.replayed_task import Failure
    from logstate.task.error_handlers import ErrorHandlers

#: exit status if a record fails
FAILED = 7


def replay(
    wanted: Target,
    application_id: ApplicationId,
    bootstrap: Bootstrap,
    task: Annotated[str, typer.Option(help="Task id as in errors: 0_1.")],
    offset: Annotated[
        str | None,
        typer.Option(
            help="Only this record: topic-partition@offset; with one input the offset is enough."
        ),
    ] = None,
    opens_debugger: Annotated[
        bool, typer.Option("--pdb", help="Open the debugger at the failure.")
    ] = False,
    error_handlers: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:ATTRIBUTE",
            help="Its ErrorHandlers: records that they skip are skipped.",
        ),
    ] = None,
    renamed: Annotated[
        list[str] | None, typer.Option(help="stored=declared, as renamed= of Application.")
    ] = None,
    topic_prefix: TopicPrefix = "",
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Run the records after a task's newest commit on its committed state, until one fails.

    Example: `logstate replay spending:topology --task 0_1 --application-id shop`. State and records
    are read from the brokers; nothing is written, and no group is joined. A record before the
    newest commit, such as that of a dead letter, is run alone with --offset, on the current state.
    The exit status is 7 if a record fails, 0 if none does.
    """
    import pdb  # noqa: T100  for --pdb

    from logstate.cli.engine.replayed_task import ReplayedTask
    from logstate.cli.shared.stored_logs import stored_by
    from logstate.topology.dsl.topology_target import load_topology

    settings = {"bootstrap.servers": bootstrap, **client_settings(command_config)}
    topology = load_topology(wanted).with_topic_prefix(topic_prefix)
    stored = stored_by(settings, application_id)
    cluster = cluster_of(bootstrap, command_config)
    replayed = ReplayedTask(
        settings,
        stored,
        topology,
        _task_id(task),
        cluster,
        error_handlers=_handlers(error_handlers),
        renamed=dict(map(pair, renamed or ())),
    )
    for name in replayed.new_stores:
        print_text(
            f"store {name!r} is not stored yet, or under another name: it is empty here; if it was"
            f" renamed, pass --renamed stored={name}",
            is_error=True,
        )
    only = None if offset is None else _position(offset, replayed.inputs)
    count, failure = replayed.run(only=only)
    if as_json:
        about = {"passed_over": replayed.passed_over, **_as_json(count, failure)}
        print_json({"application_id": application_id, "task": task, **about})
    else:
        _print(count, replayed.passed_over, failure)
    if failure is not None and opens_debugger:
        pdb.post_mortem((failure.error.__cause__ or failure.error).__traceback__)
    raise typer.Exit(0 if failure is None else FAILED)


def _as_json(count: int, failure: Failure | None) -> dict[str, object]:
    from logstate.cli.engine.replayed_task import position_of

    if failure is None:
        return {"processed": count, "failure": None}
    record = failure.record
    return {
        "processed": count,
        "failure": {
            "record": position_of(record),
            "key": repr(record.key()),
            "value": repr(record.value()),
            "timestamp_ms": record.timestamp()[1],
            "before": failure.before,
            "after": failure.after,
            "error": str(failure.error),
        },
    }


def _print(count: int, passed_over: list[str], failure: Failure | None) -> None:
    from logstate.cli.engine.replayed_task import position_of

    print_text(f"{count} records were processed")
    if passed_over:
        print_text(f"skipped by error handlers: {', '.join(passed_over)}")
    if failure is None:
        print_text("none failed")
        return
    record = failure.record
    print_text(f"failed: {position_of(record)}")
    print_text(f"  key {record.key()!r}, value {record.value()!r}, time {record.timestamp()[1]} ms")
    for title, stores in (("before", failure.before), ("after", failure.after)):
        for name, rows in stores.items():
            print_text(f"  {title}, store {name!r}: {rows or 'nothing'}")
    print_text(f"  {failure.error}")


def _handlers(target: str | None) -> ErrorHandlers:
    from logstate.task.error_handlers import FAIL_ALWAYS, ErrorHandlers
    from logstate.topology.dsl.topology_target import load_attribute

    found = None if target is None else load_attribute(target)
    if found is None:
        return FAIL_ALWAYS
    if not isinstance(found, ErrorHandlers):
        raise ConfigError(f"--error-handlers {target} must be ErrorHandlers, but is {found!r}")
    return found


def _task_id(text: str) -> TaskId:
    sub_topology, _, partition = text.partition("_")
    if not (sub_topology.isdecimal() and partition.isdecimal()):
        raise ConfigError(f"--task {text!r} is not a task id: write it as in errors, such as 0_1")
    return TaskId(int(sub_topology), int(partition))


def _position(text: str, inputs: Sequence[TopicPartition]) -> tuple[TopicPartition, int]:
    """Parse the position of a record. Raises ConfigError for invalid text and unknown
    partitions.
    """
    if text.isdecimal() and len(inputs) == 1:
        return inputs[0], int(text)
    where, _, offset = text.rpartition("@")
    topic, _, partition = where.rpartition("-")
    if not (topic and partition.isdecimal() and offset.isdecimal()):
        raise ConfigError(
            f"--offset {text!r} is not a position: write topic-partition@offset, as in"
            f" {inputs[0].topic}-{inputs[0].partition}@12"
        )
    found = TopicPartition(topic, int(partition))
    if found not in inputs:
        known = ", ".join(f"{one.topic}-{one.partition}" for one in inputs)
        raise ConfigError(f"--offset {text}: the task does not read {where}; it reads {known}")
    return found, int(offset)
