"""``logstate topology``: describe and compare topologies."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer
import typer.core

from logstate.cli.deployment.plan import STATUS, for_programs, print_changes
from logstate.cli.shared.options import Json, Target
from logstate.cli.shared.printing import print_json, print_text
from logstate.contracts.compatibility import worst


class PictureFormat(StrEnum):
    """The formats that ``logstate topology`` can print."""

    TEXT = "text"
    MERMAID = "mermaid"
    SVG = "svg"


class _ShowsByDefault(typer.core.TyperGroup):
    """``logstate topology MODULE:ATTRIBUTE`` means ``logstate topology show …``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["show", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    help="Describe and compare topologies.", cls=_ShowsByDefault, no_args_is_help=True
)


@app.command("show")
def show(
    target: Target,
    form: Annotated[
        PictureFormat, typer.Option("--format", help="Kafka Streams' text, or a picture.")
    ] = PictureFormat.TEXT,
    as_json: Json = False,
) -> None:
    """Describe a topology: sub-topologies, operators, stores, and the topics between them.

    Example: `logstate topology spending:topology --format mermaid`.
    """
    from logstate.topology.dsl.topology_target import load_topology

    found = load_topology(target)
    if as_json:
        print_json(asdict(found.description()))
        return
    drawings = {PictureFormat.MERMAID: found.to_mermaid, PictureFormat.SVG: found.to_svg}
    print_text(drawings.get(form, found.describe)(), end="")


@app.command("diff")
def diff(before: Target, after: Target, as_json: Json = False) -> None:
    """Show what changes for the state of an application from one topology to another.

    Example: `logstate topology diff old:topology new:topology`. Ends with the status of `logstate
    plan`, which also compares with the stored state.
    """
    from logstate.topics.preview import difference
    from logstate.topology.dsl.topology_target import load_topology

    changes = difference(load_topology(before), load_topology(after))
    if as_json:
        print_json(for_programs(changes))
    else:
        print_changes(changes)
    raise typer.Exit(STATUS[worst(changes)])
