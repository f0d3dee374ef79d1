"""One instance in a process of its own; it says what it has five times a second.

``python -m tests.campaigns.elastic.instance BOOTSTRAP RUN STATE_DIR``. Lines of JSON go to standard
output, the log to standard error.
"""

from __future__ import annotations

import argparse
import json
import logging
import threading
from pathlib import Path

from logstate import Application
from tests.campaigns.elastic.causes import Sampler
from tests.campaigns.elastic.flow import application

_TOLD_EVERY_S = 0.2


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("run")
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("--standbys", type=int, default=0)
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--serve")
    parser.add_argument("--causes", action="store_true")
    a = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(created).3f %(name)s %(message)s")
    app = application(
        a.bootstrap,
        a.run,
        a.state_dir,
        standbys=a.standbys,
        is_static=a.static,
        serve=a.serve,
    )
    ended = threading.Event()
    threading.Thread(target=_tell, args=(app, ended), daemon=True).start()
    if a.causes:
        Sampler(a.state_dir.with_name("samples"))
    try:
        app.run()
    finally:
        ended.set()


def _tell(app: Application, ended: threading.Event) -> None:
    while not ended.wait(_TOLD_EVERY_S):
        print(json.dumps({"tasks": app.tasks(), "standbys": app.standbys()}), flush=True)


if __name__ == "__main__":
    main()
