"""An instance of an example, as a process that tests kill.

``python -m tests.broker.example_instance MODULE BOOTSTRAP NAME STATE_DIR``: ``MODULE`` has a
function ``topology(prefix)``, or ``topology(prefix, VARIANT)`` for ``MODULE:VARIANT``; ``NAME`` is
the application's id, and with a hyphen the prefix of its topics. With ``--serve`` it answers
queries of other instances. ``--max-task-idle`` is in seconds.
"""

from __future__ import annotations

import argparse
import importlib
import logging
from datetime import timedelta
from pathlib import Path

from logstate import Application


def application(
    module: str,
    bootstrap: str,
    name: str,
    state_dir: Path,
    *,
    serve: bool = False,
    max_task_idle: float = 0,
) -> Application:
    """Return an instance; one that starts again with its disk has its tasks at once.

    Closed windows are emitted at the next record: the last one closes the others.
    """
    module, *variant = module.split(":")
    return Application(
        importlib.import_module(module).topology(f"{name}-", *variant),
        application_id=name,
        bootstrap=bootstrap,
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=50),
        checkpoint_interval=timedelta(milliseconds=300),
        static_membership=True,
        serve="127.0.0.1:0" if serve else None,
        max_task_idle=timedelta(seconds=max_task_idle),
        window_emit_interval=timedelta(0),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("bootstrap")
    parser.add_argument("name")
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--max-task-idle", type=float, default=0)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    application(**vars(given)).run()
