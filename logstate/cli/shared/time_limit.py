"""End a command whose brokers are slow, with a message.

Every command with ``--bootstrap`` gets the option ``--timeout`` here. Requests of the clients have
time-outs of their own, but a command makes many of them. The limit is a timer that ends the
process, because a call of a client cannot be interrupted.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, get_type_hints

import typer

#: commands that run until they are stopped, or contact no broker
_UNLIMITED = frozenset({"run", "acls"})
#: how long after its own time-out a command is ended
_GRACE_S = 5.0


class CommandProcess:
    """Whether this process runs one command and may be ended; not so in tests."""

    is_command = False


def limited(name: str, command: Callable[..., Any], default_s: float | None) -> Callable[..., Any]:
    """Return the command with ``--timeout``; itself if it has no brokers, or has the option."""
    parameters = inspect.signature(command).parameters
    if "bootstrap" not in parameters or name in _UNLIMITED or "timeout" in parameters:
        return command
    text = "Seconds in which it has to end" + ("; no limit by default." if not default_s else ".")
    option = typer.Option(min=0.001, help=text)
    hints = get_type_hints(command, include_extras=True)
    hints["timeout"] = Annotated[float | None, option]

    @functools.wraps(command)
    def call(*, timeout: float | None = None, **arguments: Any) -> Any:
        bootstrap = arguments["bootstrap"]  # None: the command uses no broker this time
        is_endless = arguments.get("follow") and timeout == default_s
        if timeout is None or bootstrap is None or is_endless:
            return command(**arguments)
        with time_limit(name, timeout, bootstrap):
            return command(**arguments)

    kept = [one.replace(annotation=hints[one.name]) for one in parameters.values()]
    added = inspect.Parameter(
        "timeout",
        inspect.Parameter.KEYWORD_ONLY,
        default=default_s,
        annotation=hints["timeout"],
    )
    call.__annotations__ = hints
    call.__signature__ = inspect.Signature([*kept, added])  # type: ignore[attr-defined]
    return call


@contextmanager
def time_limit(
    name: str, timeout: float, bootstrap: str, *, ends_itself: bool = False
) -> Iterator[None]:
    """End the process with a message unless the block ends in time; with ``ends_itself`` later."""
    limit_s = timeout + (_GRACE_S if ends_itself else 0)
    timer = threading.Timer(limit_s, _exit_with_message, (name, timeout, bootstrap))
    timer.daemon = True
    if CommandProcess.is_command and limit_s < threading.TIMEOUT_MAX:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _exit_with_message(name: str, timeout: float, bootstrap: str) -> None:
    from logstate.cli.shared.printing import print_text  # with rich, which takes time

    print_text(
        f"logstate: {name} has not ended within {timeout:g} s (--timeout). The brokers at"
        f" {bootstrap} are slow or do not answer, or there is much to read. Check the address and"
        " the network, or give a longer --timeout",
        is_error=True,
    )
    os._exit(1)
