"""``logstate reset``: delete what an application has stored."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logstate.cli.shared.options import Bootstrap, CommandConfig, Json, Stopped
from logstate.cli.shared.printing import print_json, print_text
from logstate.cli.shared.stored_state import (
    cluster_of,
    delete_local_state,
    manifest_of,
    target,
    task_directories,
    topics_of_other_applications,
    with_manifest,
)
from logstate.contracts.clients import Admin, Cluster, run_steps
from logstate.contracts.errors import RestoreError

if TYPE_CHECKING:
    from logstate.topics.manifest_changes import Manifest


def reset(
    application_id: Stopped,
    bootstrap: Bootstrap,
    to: Annotated[
        str,
        typer.Option(
            metavar="earliest|latest|TIME|OFFSET",
            help="Where its inputs begin; a time as 2026-01-31T12:00, local if without a zone.",
        ),
    ] = "earliest",
    state_dir: Annotated[
        Path | None, typer.Option(help="Its local state; other machines discard theirs by itself.")
    ] = None,
    command_config: CommandConfig = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Delete what an application has stored: offsets, its topics, local state.

    Example: `logstate reset --application-id shop --state-dir /var/lib/shop --dry-run`. Refused
    while an instance is running. After a crash during a reset the application does not start until
    the reset is run again.
    """
    from logstate.admin import reset as resets
    from logstate.contracts.topic_names import offline_transactional_id

    begin = target(to)

    def carry_out(admin: Admin, stored: Manifest | None) -> None:
        cluster = cluster_of(bootstrap, command_config)
        named = set() if stored is None else resets.internal_topics(application_id, stored)
        shared = topics_of_other_applications(
            application_id, admin, named, lambda other: _manifest_of(other, cluster, admin)
        )
        plan = resets.planned_reset(
            admin, application_id, stored, begin, of_other_applications=shared
        )
        found = run_steps(plan)
        local = task_directories(state_dir, application_id)
        if as_json:
            print_json({**resets.as_plain_data(found), "directories": local})
        else:
            print_text("\n".join([str(found), *(f"delete directory {path}" for path in local)]))
        if dry_run:
            return
        if not yes:
            typer.confirm("Delete all of this?", abort=True, err=True)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        run_steps(
            resets.carried_out(
                found,
                admin,
                lambda: cluster.transactional_producer(offline_transactional_id(application_id)),
                lambda: delete_local_state(state_dir, application_id),
                now=now,
            )
        )
        print_text(f"application {application_id} is reset", is_error=True)

    with_manifest(application_id, bootstrap, command_config, carry_out)


def _manifest_of(application_id: str, cluster: Cluster, admin: Admin) -> Manifest | None:
    """Return the manifest of another application; None if there is none, or it is not valid."""
    try:
        return manifest_of(application_id, cluster, admin)
    except RestoreError:
        return None
