"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
BOOTSTRAP = "LOGSTATE_BOOTSTRAP"
APPLICATION = "LOGSTATE_APPLICATION"

ApplicationId = Annotated[str, typer.Option(envvar=APPLICATION, help="Id of the application.")]
Stopped = Annotated[
    str, typer.Option(envvar=APPLICATION, help="Id of the application; it must not run.")
]
AnyApplicationId = Annotated[
    str | None,
    typer.Option(envvar=APPLICATION, help="Id of the application that reads or writes the topic."),
]
Bootstrap = Annotated[str, typer.Option(envvar=BOOTSTRAP, help="host:port,... of the brokers.")]
OfTopology = Annotated[
    str | None,
    typer.Option(metavar="MODULE:ATTRIBUTE", help="The topology that reads or writes the topic."),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(help="File with client settings, one per line: security.protocol=SSL"),
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
TopicPrefix = Annotated[
    str,
    typer.Option(
        envvar="LOGSTATE_TOPIC_PREFIX", help="Before the topics, as topic_prefix= of Application."
    ),
]
Registry = Annotated[
    str | None,
    typer.Option(help="URL of the schema registry, if it is not that of the application."),
]
