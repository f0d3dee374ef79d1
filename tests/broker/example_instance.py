"""An instance of an example, as a process that tests kill.

``python -m tests.broker.example_instance MODULE BOOTSTRAP NAME STATE_DIR``: ``MODULE`` has a
function ``topology(prefix)``; ``NAME`` is the application's id, and with a hyphen the prefix of its
topics.
"""

from __future__ import annotations

import argparse
import importlib
import logging
from datetime import timedelta
from pathlib import Path

from logstate import Application

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("bootstrap")
    parser.add_argument("name")
    parser.add_argument("state_dir", type=Path)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    Application(
        importlib.import_module(given.module).topology(f"{given.name}-"),
        application_id=given.name,
        bootstrap=given.bootstrap,
        state_dir=given.state_dir,
        commit_interval=timedelta(milliseconds=50),
        checkpoint_interval=timedelta(milliseconds=300),
        static_membership=True,  # an instance that starts again has its tasks at once
    ).run()
