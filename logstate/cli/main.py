"""The ``logstate`` command.

Results go to standard output (``--json`` for programs), progress and errors to standard error. An
error of the library ends with status 1 and its message, without a traceback.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

try:
    import typer
    import typer.core
    import typer.main
    from typer.completion import Shells, get_completion_script  # type: ignore[attr-defined]
except ImportError as error:
    sys.exit(
        f"The command line needs an extra ({error.name} is missing): pip install 'logstate[cli]'"
    )

from logstate.cli.shared.time_limit import CommandProcess, limited
from logstate.contracts.errors import LogstateError

#: errors are printed once, by the command; `run` configures its own log
_NOBODY = logging.NullHandler()
#: errors of a write to standard output if the device is full
_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT)


#: default of --timeout for commands that read little
_QUICK_S = 60.0


class _Command(NamedTuple):
    """A command, or a group of commands, that is loaded when it is used."""

    #: ``module:attribute`` below ``logstate.cli``: a function or a typer.Typer
    place: str
    #: the first sentence of its help
    summary: str
    #: default of --timeout; None if the time depends on the data, or on an answer of the user
    timeout_s: float | None = None

    def loaded(self) -> Any:
        """Return the function or the typer.Typer."""
        module, _, attribute = self.place.partition(":")
        return getattr(import_module(f"logstate.cli.{module}"), attribute)


COMMANDS = {
    "new": _Command(
        "deployment.new:new",
        "Write a service, its test, a Dockerfile and a compose file to a folder.",
    ),
    "broker": _Command("broker:app", "A real Kafka broker on this machine."),
    "topology": _Command("deployment.topology:app", "Describe and compare topologies."),
    "asyncapi": _Command(
        "deployment.asyncapi:asyncapi",
        "Print the AsyncAPI document of a topology's topics: their keys, values and schemas.",
    ),
    "topics": _Command("deployment.topics:app", "Create the topics of an application.", _QUICK_S),
    "cut": _Command("stores.cut:app", "Manage named cuts of an application.", _QUICK_S),
    "run": _Command(
        "engine.run:run",
        "Run a topology until SIGTERM or Ctrl-C; processed records are committed before the end.",
    ),
    "plan": _Command(
        "deployment.plan:plan",
        "Compare a topology with what its application has stored, before it is deployed.",
        _QUICK_S,
    ),
    "acls": _Command(
        "deployment.acls:acls",
        "List the least permissions that an application needs, as kafka-acls commands.",
    ),
    "status": _Command(
        "diagnosis.status:status",
        "List the instances of an application, their tasks and stages, and its lag.",
        _QUICK_S,
    ),
    "get": _Command(
        "stores.get:get",
        "Print the rows of one key of a store, at the newest commit of its task; all of its"
        " windows.",
    ),
    "tail": _Command(
        "stores.tail:tail",
        "Print the records of a topic or of a store's changelog; committed ones only, decoded.",
    ),
    "produce": _Command(
        "stores.produce:produce", "Write a record, or a file of records, to a topic."
    ),
    "consume": _Command(
        "stores.tail:consume",
        "Print the records of a topic as lines of JSON, as they arrive; committed ones only,"
        " decoded.",
    ),
    "export": _Command(
        "stores.export:export",
        "Write the state of a store at one cut as parquet, by default at each task's newest"
        " commit.",
    ),
    "doctor": _Command(
        "diagnosis.doctor:doctor",
        "Check for what would stop an application: packages, limits, disk, brokers, permissions.",
        _QUICK_S,
    ),
    "lag": _Command(
        "diagnosis.status:lag",
        "Print the lag of each partition that an application reads, by its committed offsets.",
        _QUICK_S,
    ),
    "stores": _Command(
        "stores.stores:stores",
        "List the stores of an application, their formats, and their changelogs.",
        _QUICK_S,
    ),
    "replay": _Command(
        "engine.replay:replay",
        "Run the records after a task's newest commit on its committed state, until one fails.",
    ),
    "bench": _Command(
        "engine.bench:bench",
        "Measure a topology with generated records of its declared types.",
    ),
    "completion": _Command(
        "main:completion",
        "Print the script that completes commands and options in a shell.",
    ),
    "reset": _Command(
        "deployment.reset:reset",
        "Delete what an application has stored: offsets, its topics, local state.",
    ),
    "reshard": _Command(
        "deployment.reshard:reshard",
        "Move the state of an application to the current partition count of its inputs.",
    ),
    "handover": _Command(
        "deployment.handover:handover",
        "Check whether Kafka Streams on the JVM may take an application over, and list its stores.",
        _QUICK_S,
    ),
}


class _Commands(typer.core.TyperGroup):
    """Loads a command when it is called or its options are completed, not to list it.

    The module of a command imports the engine inside its functions, so that its options and its
    help are known without it.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {
            name: typer.core.TyperCommand(name, help=one.summary) for name, one in COMMANDS.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if command is None:
            return name, command, rest
        built = _built(str(name))
        if ctx.resilient_parsing:
            _parse_without_converting(built)
        return name, built, rest

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            _parse_without_converting(self)
        return super().parse_args(ctx, args)


def _parse_without_converting(command: Any) -> None:
    """Leave values as typed: a completion needs their places only, and pydantic takes 50 ms."""
    for one in (command, *getattr(command, "commands", {}).values()):
        one.get_params = partial(_not_converting, one.get_params)


def _not_converting(get_params: Callable[[Any], list[Any]], ctx: Any) -> list[Any]:
    parameters = get_params(ctx)
    for one in parameters:
        one.process_value = lambda _, value: value
    return parameters


def _built(name: str) -> Any:
    """Load a command and build its parser."""
    found, limit_s = COMMANDS[name].loaded(), COMMANDS[name].timeout_s
    if isinstance(found, typer.Typer):
        for each in found.registered_commands:
            if each.callback is not None:
                each.callback = limited(f"{name} {each.name}", each.callback, limit_s)
        group = typer.main.get_group(found)
        group.name = name
        return group
    alone = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown"
    )
    # A key may begin with a hyphen, as negative numbers do.
    has_key = name in ("get", "produce")
    alone.command(name, context_settings={"ignore_unknown_options": has_key})(
        limited(name, found, limit_s)
    )
    return typer.main.get_command(alone)


app = typer.Typer(
    name="logstate",
    help="Stateful stream processing on Apache Kafka.",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # paragraphs fit the terminal
)


def completion(shell: Annotated[Shells, typer.Argument(help="The shell.")]) -> None:
    """Print the script that completes commands and options in a shell.

    bash: eval "$(logstate completion bash)". To install it permanently:
    logstate --install-completion.
    """
    variable = "_LOGSTATE_COMPLETE"
    typer.echo(
        get_completion_script(prog_name="logstate", complete_var=variable, shell=shell.value)
    )


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version  # with modules that only this option needs

        typer.echo(version("logstate"))
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


def _fail(message: str) -> NoReturn:
    from logstate.cli.shared.printing import fail  # rich, for the error of a command

    fail(message)


def main() -> None:
    """Entry point of the ``logstate`` script and of ``python -m logstate``."""
    CommandProcess.is_command = True
    if sys.stdout is None:  # closed by the shell, for example with >&-
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  for good
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except LogstateError as error:
        _fail(str(error))
    except OSError as error:
        if error.errno not in _NOT_WRITTEN:
            raise
        # The interpreter flushes the rest at its end, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _fail(f"not all of the output could be written: {error.strerror}. Free some space")
