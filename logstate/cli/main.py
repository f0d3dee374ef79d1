"""The ``logstate`` command.

Results go to standard output (``--json`` for programs), progress and errors to standard error. An
error of the library ends with status 1 and its message, without a traceback.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

try:
    import rich  # noqa: F401 - the commands print with it
    import typer
    from typer.completion import Shells, get_completion_script  # type: ignore[attr-defined]
except ImportError as error:
    sys.exit(
        f"The command line needs an extra ({error.name} is missing): pip install 'logstate[cli]'"
    )

from logstate.cli import broker
from logstate.cli.deployment import acls, handover, plan, reset, reshard, topics, topology
from logstate.cli.diagnosis import doctor, status
from logstate.cli.engine.bench import bench
from logstate.cli.engine.replay import replay
from logstate.cli.engine.run import run
from logstate.cli.shared.printing import fail, print_text
from logstate.cli.stores import cut, export, get, stores, tail
from logstate.contracts.errors import LogstateError

#: errors are printed once, by the command; `run` configures its own log
_NOBODY = logging.NullHandler()
#: errors of a write to standard output if the device is full
_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT)

app = typer.Typer(
    name="logstate",
    help="Stateful stream processing on Apache Kafka.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # paragraphs fit the terminal
)
app.add_typer(broker.app, name="broker")
app.add_typer(topology.app, name="topology")
app.add_typer(topics.app, name="topics")
app.add_typer(cut.app, name="cut")


def completion(shell: Annotated[Shells, typer.Argument(help="The shell.")]) -> None:
    """Print the script that completes commands and options in a shell.

    bash: eval "$(logstate completion bash)". To install it permanently:
    logstate --install-completion.
    """
    variable = "_LOGSTATE_COMPLETE"
    typer.echo(
        get_completion_script(prog_name="logstate", complete_var=variable, shell=shell.value)
    )


for command in (
    run,
    plan.plan,
    acls.acls,
    status.status,
    get.get,
    tail.tail,
    export.export,
    doctor.doctor,
    status.lag,
    stores.stores,
    replay,
    bench,
    completion,
    reset.reset,
    reshard.reshard,
    handover.handover,
):
    # A key may begin with a hyphen, as negative numbers do.
    app.command(context_settings={"ignore_unknown_options": command is get.get})(command)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        print_text(version("logstate"))
        raise typer.Exit


@app.callback()
def options(
    is_wanted: Annotated[  # noqa: ARG001  its callback has ended the command
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version, and end."
        ),
    ] = False,
) -> None:
    """Stateful stream processing on Apache Kafka."""
    logging.getLogger("logstate").addHandler(_NOBODY)


def main() -> None:
    """Entry point of the ``logstate`` script and of ``python -m logstate``."""
    if sys.stdout is None:  # closed by the shell, for example with >&-
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  for good
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except LogstateError as error:
        fail(str(error))
    except OSError as error:
        if error.errno not in _NOT_WRITTEN:
            raise
        # The interpreter flushes the rest at its end, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        fail(f"not all of the output could be written: {error.strerror}. Free some space")
