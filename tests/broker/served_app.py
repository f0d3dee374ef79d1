"""An instance with queries over HTTP, in a separate process, for tests that restart it."""

from __future__ import annotations

import argparse
import logging
from datetime import timedelta
from pathlib import Path

from logstate import Application, Serving
from tests.broker.counting_app import topology

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("prefix")
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("port", type=int)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    Application(
        topology(arguments.prefix),
        application_id=arguments.prefix,
        bootstrap=arguments.bootstrap,
        state_dir=arguments.state_dir,
        commit_interval=timedelta(milliseconds=50),
        standby_replicas=1,
        serve=Serving(f"127.0.0.1:{arguments.port}", drain=timedelta(seconds=2)),
    ).run()
