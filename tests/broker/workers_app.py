"""One instance with worker processes, as a script: what it needs is defined in the script itself.

It prints the state of every store once a line is read, and lives until SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import threading
from datetime import timedelta
from pathlib import Path

from logstate import Application, StreamsBuilder
from logstate.contracts.errors import StoreUnavailableError

LINE = "%(asctime)s %(levelname)s %(processName)s:%(process)d %(name)s %(message)s"

parser = argparse.ArgumentParser()
parser.add_argument("bootstrap")
parser.add_argument("prefix")
parser.add_argument("state_dir", type=Path)
parser.add_argument("workers", type=int)
arguments = parser.parse_args()
logging.basicConfig(level=logging.INFO, format=LINE)

prefix = arguments.prefix
builder = StreamsBuilder()
clicks = builder.stream(f"{prefix}-clicks", key=str, value=str).filter(lambda page: page != "")
clicks.group_by_key().count(store="per-user").to_stream().to(f"{prefix}-per-user")
by_page = clicks.group_by(lambda user, page: page, name="by-page", key=str)
by_page.count(store="per-page").to_stream().to(f"{prefix}-per-page")

app = Application(
    builder.build(),
    application_id=prefix,
    bootstrap=arguments.bootstrap,
    state_dir=arguments.state_dir,
    commit_interval=timedelta(milliseconds=50),
    workers=arguments.workers,
)


def answer() -> None:
    """A line in, all rows out."""
    for _ in sys.stdin:
        try:
            rows = {
                name: {key: row.value for key, row in app.store(name).all()}
                for name in ("per-user", "per-page")
            }
        except StoreUnavailableError:  # tasks are on their way
            rows = {}
        print(json.dumps(rows), flush=True)


threading.Thread(target=answer, daemon=True).start()
logger = logging.getLogger("workers_app")
app.on_state_change(lambda _, state: logger.info("it is %s", state.value))
app.run()
