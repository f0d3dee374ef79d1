"""The ``logstate`` command.

What a command found goes to standard output (``--json`` for programs), progress and errors go to
standard error. An error of ours ends with status 1 and its own sentence, without a traceback.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from logstate.contracts.errors import LogstateError
from logstate.local_broker.broker import LocalBroker
from logstate.local_broker.registry import RunningBroker, running_brokers, stop_running
from logstate.topology_target import load_topology

try:
    import typer
except ImportError as error:
    sys.exit(
        f"The command line needs an extra ({error.name} is missing): pip install logstate[cli]"
    )

app = typer.Typer(
    name="logstate",
    help="Stateful stream processing on Apache Kafka.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
broker_app = typer.Typer(help="A real Kafka broker on this machine.", no_args_is_help=True)
app.add_typer(broker_app, name="broker")

Port = Annotated[int | None, typer.Option(help="Loopback port; a free one when not given.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        print(version("logstate"))
        raise typer.Exit


@app.callback()
def options(
    is_wanted: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version, and end."
        ),
    ] = False,
) -> None:
    """Stateful stream processing on Apache Kafka."""


@broker_app.command("start")
def broker_start(
    port: Port = None,
    data: Annotated[
        Path | None, typer.Option(help="Directory to keep; a temporary one when not given.")
    ] = None,
    heap: Annotated[str, typer.Option(help="JVM heap, as in -Xmx.")] = "512m",
    as_json: Json = False,
) -> None:
    """Start a broker in the background and print its address."""
    broker = LocalBroker.start(port=port, data=data, heap=heap, detached=True)
    started = [one for one in running_brokers() if one.bootstrap == broker.bootstrap]
    if as_json:
        _print_json([asdict(one) for one in started])
    else:
        print(broker.bootstrap)


@broker_app.command("stop")
def broker_stop(
    port: Annotated[int | None, typer.Option(help="Which one, when several run.")] = None,
    data: Annotated[Path | None, typer.Option(help="Which one, by its directory.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every one.")] = False,
    as_json: Json = False,
) -> None:
    """Stop a broker; its data are removed when they were temporary."""
    chosen = _choose(running_brokers(), port, data)
    if not chosen:
        _fail("No such local broker is running; `logstate broker status` lists them.")
    if len(chosen) > 1 and not every:
        several = ", ".join(one.bootstrap for one in chosen)
        _fail(f"Several brokers are running: {several}. Choose with --port or --data, or --all.")
    for one in chosen:
        stop_running(one)
        if not as_json:
            print(f"stopped {one.bootstrap}")
    if as_json:
        _print_json([asdict(one) for one in chosen])


@broker_app.command("status")
def broker_status(as_json: Json = False) -> None:
    """List the local brokers; status 1 when there is none."""
    running = running_brokers()
    if as_json:
        _print_json([asdict(one) for one in running])
    for one in [] if as_json else running:
        kept = "temporary" if one.temporary else "kept"
        print(f"{one.bootstrap}  pid {one.pid}  {one.data} ({kept})")
    if not running:
        _fail("No local broker is running; `logstate broker start` starts one.")


class PictureFormat(StrEnum):
    """What ``logstate topology`` can print."""

    TEXT = "text"
    MERMAID = "mermaid"
    SVG = "svg"


@app.command("topology")
def topology(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:ATTRIBUTE",
            help="A topology, a builder, or a function that returns one.",
        ),
    ],
    form: Annotated[
        PictureFormat, typer.Option("--format", help="Kafka Streams' text, or a picture.")
    ] = PictureFormat.TEXT,
) -> None:
    """Describe a topology: sub-topologies, operators, stores, and the topics between them."""
    found = load_topology(target)
    drawings = {PictureFormat.MERMAID: found.to_mermaid, PictureFormat.SVG: found.to_svg}
    print(drawings.get(form, found.describe)(), end="")


def main() -> None:
    """Entry point of the ``logstate`` script and of ``python -m logstate``."""
    try:
        app()
    except LogstateError as error:
        _fail(str(error))


def _choose(
    running: list[RunningBroker], port: int | None, data: Path | None
) -> list[RunningBroker]:
    directory = None if data is None else str(data.resolve())
    return [
        one
        for one in running
        if (port is None or one.port == port) and (directory is None or one.data == directory)
    ]


def _fail(message: str) -> None:
    print(f"logstate: {message}", file=sys.stderr)
    sys.exit(1)


def _print_json(value: object) -> None:
    print(json.dumps(value))
