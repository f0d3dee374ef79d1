"""``logstate plan``: show what a start would find, before it is tried."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import typer

from logstate.cli.shared.options import (
    ApplicationId,
    Bootstrap,
    CommandConfig,
    Forget,
    Json,
    Renamed,
    Target,
    TopicPrefix,
)
from logstate.cli.shared.printing import print_json, print_table, print_text
from logstate.cli.shared.stored_state import decisions, with_manifest
from logstate.contracts.clients import Admin, run_steps
from logstate.contracts.compatibility import SpecChange, Verdict, worst

if TYPE_CHECKING:
    from logstate.topics import preview as previews
    from logstate.topics.manifest_changes import Manifest

#: exit status of a comparison
STATUS: Final = {Verdict.SAME: 0, Verdict.COMPATIBLE: 0, Verdict.DECISION: 3, Verdict.REFUSED: 4}


def print_changes(changes: Iterable[SpecChange]) -> None:
    """Print changes as a table, the worst first."""
    from rich.table import Table

    found = sorted(changes, key=lambda change: -change.verdict)
    if not found:
        print_text("same: all stored data is read as before")
        return
    table = Table("verdict", "what", "part", "stored", "declared", "meaning", show_lines=True)
    for change in found:
        sides = ["" if side is None else str(side) for side in (change.stored, change.declared)]
        table.add_row(str(change.verdict), change.subject, change.part, *sides, change.meaning)
    print_table(table)


def for_programs(changes: Iterable[SpecChange]) -> dict[str, Any]:
    """Return changes as data for JSON."""
    from logstate.topics import preview as previews

    found = list(changes)
    return {"verdict": str(worst(found)), "changes": previews.as_plain_data(found)}


def plan(
    wanted: Target,
    application_id: ApplicationId,
    bootstrap: Bootstrap,
    topic_prefix: TopicPrefix = "",
    renamed: Renamed = None,
    forget: Forget = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Compare a topology with what its application has stored, before it is deployed.

    Example: `logstate plan spending:topology --application-id shop`. Ends with status 0 if
    everything is the same or compatible, 3 if a decision is needed, 4 if a start would be refused.
    Nothing is changed.
    """
    from logstate.topics import preview as previews
    from logstate.topology.dsl.topology_target import load_topology

    decided = decisions(renamed, forget)
    topology = load_topology(wanted).with_topic_prefix(topic_prefix)

    def compare(admin: Admin, stored: Manifest | None) -> previews.Preview:
        return run_steps(previews.preview(admin, topology, application_id, stored, decided))

    found = with_manifest(application_id, bootstrap, command_config, compare)
    if as_json:
        changes = {**for_programs(found.changes), "verdict": str(found.verdict)}
        problems = list(found.problems)
        print_json({"application_id": application_id, **changes, "problems": problems})
    else:
        if found.is_new and not found.problems:
            print_text(f"Nothing is stored yet for application {application_id!r}.")
        if found.changes or not (found.is_new or found.problems):
            print_changes(found.changes)
        for problem in found.problems:
            print_text(f"refused: {problem}")
    raise typer.Exit(STATUS[found.verdict])
