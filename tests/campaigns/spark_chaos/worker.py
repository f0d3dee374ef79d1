"""One worker in a process.

Run ``python -m tests.campaigns.spark_chaos.worker BOOTSTRAP PREFIX DIR``.
"""

from __future__ import annotations

import faulthandler
import logging
import signal
import sys
from pathlib import Path

from tests.campaigns.spark_chaos.flow import application

if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)  # where does it hang?
    bootstrap, prefix, state_dir = sys.argv[1:4]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    application(bootstrap, prefix, Path(state_dir)).run()
