"""``logstate run``: run an application of a topology without a script."""

from __future__ import annotations

import logging
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from logstate.cli.shared.options import ApplicationId, Bootstrap, CommandConfig, Target, TopicPrefix
from logstate.cli.shared.stored_state import client_settings


class Guarantee(StrEnum):
    """Guarantee for outputs; state is exactly-once in both."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


def run(
    target: Target,
    application_id: ApplicationId,
    bootstrap: Bootstrap,
    state_dir: Annotated[Path, typer.Option(help="Local state; created if missing.")],
    workers: Annotated[int, typer.Option(help="1: a thread; more: processes.")] = 1,
    guarantee: Annotated[Guarantee, typer.Option(help="For outputs.")] = Guarantee.EXACTLY_ONCE,
    serve: Annotated[str | None, typer.Option(help="host:port for queries over HTTP.")] = None,
    topic_prefix: TopicPrefix = "",
    command_config: CommandConfig = None,
) -> None:
    """Run a topology until SIGTERM or Ctrl-C; processed records are committed before the end.

    Example: `logstate run spending:topology --application-id shop --state-dir /var/lib/shop`. All
    other settings have their defaults: a service that needs other settings, or error handlers,
    creates an Application itself.
    """
    from logstate.app.application import Application

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("logstate").setLevel(logging.INFO)
    Application(
        target,
        application_id=application_id,
        bootstrap=bootstrap,
        state_dir=state_dir,
        guarantee=guarantee.value,
        kafka=client_settings(command_config),
        topic_prefix=topic_prefix,
        workers=workers,
        serve=serve,
    ).run()
