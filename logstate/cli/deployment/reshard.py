"""``logstate reshard``: moving the state of a stopped application to other partitions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from logstate.admin import reshard as resharding
from logstate.cli.shared.options import Bootstrap, CommandConfig, Json, Stopped, Target
from logstate.cli.shared.printing import print_json, print_text
from logstate.cli.shared.stored_state import client_settings, pair, target
from logstate.topology.dsl.topology_target import load_topology


def reshard(
    application_id: Stopped,
    wanted: Target,
    bootstrap: Bootstrap,
    partitions: Annotated[
        int, typer.Option(min=1, help="Of the stores that move, as their inputs have them now.")
    ],
    begin: Annotated[
        str,
        typer.Option(
            metavar="earliest|latest|TIME|OFFSET",
            help="Where inputs begin that it has not read so far.",
        ),
    ] = "earliest",
    replication_factor: Annotated[
        int, typer.Option(help="Of the topics that are made; -1: the brokers' default.")
    ] = -1,
    topic_config: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, a setting of the topics that are made.")
    ] = None,
    keep_old: Annotated[
        bool, typer.Option("--keep-old", help="Leave the old topics, which nobody reads.")
    ] = False,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="End an interrupted move: it goes on as it was.")
    ] = False,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Move the state of an application to the partition count that its inputs have now.

    Refused while an instance lives. Interrupted, it is run again: before the handover nothing has
    changed, after it nothing is left to do but to delete old topics.
    """
    settings = client_settings(command_config)
    if give_up:
        resharding.give_up(application_id=application_id, bootstrap=bootstrap, config=settings)
        print_text(f"application {application_id} goes on as it was", is_error=True)
        return
    done = resharding.reshard(
        load_topology(wanted),
        application_id=application_id,
        bootstrap=bootstrap,
        partitions=partitions,
        begin=target(begin),
        config=settings,
        replication_factor=replication_factor,
        topic_config=dict(map(pair, topic_config or ())),
        keep_old=keep_old,
        told=lambda step: print_text(step, is_error=True),
    )
    if as_json:
        print_json({"application_id": application_id, **as_plain_data(done)})
    else:
        _print(done)


def as_plain_data(done: resharding.Resharded) -> dict[str, Any]:
    """For programs."""
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
        print_text(f"{name}: {count:,} rows were final results, sent already, and are left behind")
    if not done.partitions:
        print_text("All stores have the partitions that their inputs give; nothing was moved.")
