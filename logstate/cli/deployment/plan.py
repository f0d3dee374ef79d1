"""``logstate plan``: show what a start would find, before it is tried."""

from __future__ import annotations

from typing import Annotated

import typer

from logstate.cli.shared.options import Bootstrap, CommandConfig, Forget, Json, Renamed, Target
from logstate.cli.shared.printing import STATUS, for_programs, print_changes, print_json, print_text
from logstate.cli.shared.stored_state import decisions, with_manifest
from logstate.contracts.clients import Admin, run_steps
from logstate.topics import preview as previews
from logstate.topics.manifest_changes import Manifest
from logstate.topology.dsl.topology_target import load_topology


def plan(
    wanted: Target,
    application_id: Annotated[str, typer.Option(help="Of the application that will run it.")],
    bootstrap: Bootstrap,
    renamed: Renamed = None,
    forget: Forget = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Compare a topology with what its application has stored, before it is deployed.

    Ends with status 0 if everything is the same or compatible, 3 if a decision is needed, 4 if a
    start would be refused. Nothing is changed.
    """
    decided = decisions(renamed, forget)
    topology = load_topology(wanted)

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
