"""One worker in a process of its own.

Run ``python -m tests.campaigns.chaos.worker BOOTSTRAP PREFIX DIR``.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import signal
from pathlib import Path

from tests.campaigns.chaos.flow import application

if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)  # where does it hang?
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("prefix")
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("--protocol", choices=("consumer", "classic"), default="consumer")
    parser.add_argument("--standbys", type=int, default=0)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    application(
        arguments.bootstrap,
        arguments.prefix,
        arguments.state_dir,
        arguments.protocol,
        arguments.standbys,
    ).run()
