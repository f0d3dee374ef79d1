"""An application in a separate process that kills itself while it makes a result.

Modules of applications end with ``run(topology)``. Tests start them with ``bootstrap prefix
state_dir kill_after``; after the kill, which precedes the commit, they continue with
:func:`application` in their own process.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

from logstate.app.application import Application
from logstate.topology.plan.plan import Topology

#: topology(prefix, kill_after): every topic has the prefix of one test
MakeTopology: TypeAlias = Callable[[str, int], Topology]


def kills_at(number: int) -> Callable[[], None]:
    """Return a function that kills the process when it is called for that time; 0: never."""
    left = number

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return count


def application(
    topology: MakeTopology, bootstrap: str, prefix: str, state_dir: Path, kill_after: int = 0
) -> Application:
    """An instance with its own state directory; a restart takes over its partitions at once."""
    return Application(
        topology(prefix, kill_after),
        application_id=prefix,
        bootstrap=bootstrap,
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=30),
        static_membership=True,
    )


def run(topology: MakeTopology) -> None:
    """Run the application with the arguments of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("prefix")
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("kill_after", type=int)
    application(topology, **vars(parser.parse_args())).run()
