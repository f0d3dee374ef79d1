"""``logstate reshard``: move the state of a stopped application to other partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from logstate.cli.shared.options import Bootstrap, CommandConfig, Json, Stopped, Target, TopicPrefix
from logstate.cli.shared.printing import print_json, print_text
from logstate.cli.shared.stored_state import client_settings, pair, target

if TYPE_CHECKING:
    from logstate.admin import reshard as resharding


def reshard(
    application_id: Stopped,
    wanted: Target,
    bootstrap: Bootstrap,
    partitions: Annotated[
        int, typer.Option(min=1, help="Of the stores that move: the new count of their inputs.")
    ],
    begin: Annotated[
        str,
        typer.Option(
            metavar="earliest|latest|TIME|OFFSET",
            help="Where inputs without a committed offset begin.",
        ),
    ] = "earliest",
    replication_factor: Annotated[
        int, typer.Option(help="Of the topics that are created; -1: the brokers' default.")
    ] = -1,
    topic_config: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, a setting of the created topics.")
    ] = None,
    keep_old: Annotated[
        bool, typer.Option("--keep-old", help="Keep the old topics, which are unused afterwards.")
    ] = False,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Abandon an interrupted move; the old state is kept.")
    ] = False,
    topic_prefix: TopicPrefix = "",
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Move the state of an application to the current partition count of its inputs.

    Example: `logstate reshard spending:topology --application-id shop --partitions 6`. Refused
    while an instance is running. After an interruption, run it again: before the handover nothing
    has changed; after it, only old topics are left to delete.
    """
    from logstate.admin import reshard as resharding
    from logstate.topology.dsl.topology_target import load_topology

    settings = client_settings(command_config)
    if give_up:
        resharding.abandon(application_id=application_id, bootstrap=bootstrap, config=settings)
        print_text(f"the move of application {application_id} is abandoned", is_error=True)
        return
    done = resharding.reshard(
        load_topology(wanted).with_topic_prefix(topic_prefix),
        application_id=application_id,
        bootstrap=bootstrap,
        partitions=partitions,
        begin=target(begin),
        config=settings,
        replication_factor=replication_factor,
        topic_config=dict(map(pair, topic_config or ())),
        keep_old=keep_old,
        on_step=lambda step: print_text(step, is_error=True),
    )
    if as_json:
        print_json({"application_id": application_id, **as_plain_data(done)})
    else:
        _print(done)


def as_plain_data(done: resharding.Resharded) -> dict[str, Any]:
    """Return the result as data for JSON."""
    return {
        "partitions": {name: list(counts) for name, counts in done.partitions.items()},
        "records": dict(done.records),
        "left_behind": dict(done.left_behind),
        "deleted": list(done.deleted),
    }


def _print(done: resharding.Resharded) -> None:
    for name, (before, after) in done.partitions.items():
        print_text(f"{name}: {before} to {after} partitions, {done.records[name]:,} records")
    for name, count in done.left_behind.items():
        print_text(f"{name}: {count:,} rows were final results, already sent, and were left out")
    if not done.partitions:
        print_text("All stores have the partition counts of their inputs; nothing was moved.")
