"""``logstate run``: an application of a topology, without a script of its own."""

from __future__ import annotations

import logging
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from logstate.app.application import Application
from logstate.cli.shared.options import Bootstrap, CommandConfig, Target
from logstate.cli.shared.stored_state import client_settings


class Guarantee(StrEnum):
    """Of outputs; state is exactly-once in both."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


def run(
    target: Target,
    application_id: Annotated[str, typer.Option(help="Names its group, topics and state.")],
    bootstrap: Bootstrap,
    state_dir: Annotated[Path, typer.Option(help="Local state; made where it is missing.")],
    workers: Annotated[int, typer.Option(help="1: a thread; more: processes.")] = 1,
    guarantee: Annotated[Guarantee, typer.Option(help="Of outputs.")] = Guarantee.EXACTLY_ONCE,
    serve: Annotated[
        str | None, typer.Option(help="host:port to answer queries at, over HTTP.")
    ] = None,
    command_config: CommandConfig = None,
) -> None:
    """Run a topology until SIGTERM or Ctrl-C; what was processed is committed before the end.

    Everything else has its default: a service that needs other settings, or error handlers, makes
    an Application itself.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("logstate").setLevel(logging.INFO)
    Application(
        target,
        application_id=application_id,
        bootstrap=bootstrap,
        state_dir=state_dir,
        guarantee=guarantee.value,
        kafka=client_settings(command_config),
        workers=workers,
        serve=serve,
    ).run()
