"""What several commands are given, each named and explained in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ApplicationId = Annotated[str, typer.Argument(help="Of the application.")]
Stopped = Annotated[str, typer.Argument(help="Of the application; it must not run.")]
Bootstrap = Annotated[str, typer.Option(help="host:port,... of the brokers.")]
CommandConfig = Annotated[
    Path | None,
    typer.Option(help="File with settings of the client, a line each: security.protocol=SSL"),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:ATTRIBUTE", help="A topology, a builder, or a function that returns one."
    ),
]
Renamed = Annotated[
    list[str] | None, typer.Option(help="stored=declared, as renamed= of Application.")
]
Forget = Annotated[
    list[str] | None, typer.Option(help="A stored name, as in forget= of Application.")
]
Registry = Annotated[
    str | None,
    typer.Option(help="URL of the schema registry, where it is not the one the application has."),
]
