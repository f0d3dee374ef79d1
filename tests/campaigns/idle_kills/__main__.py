"""SIGKILL between every two consecutive steps of a tick and of the emission of late records.

    python -m tests.campaigns.idle_kills --kills-per-step 30

A process of the application kills itself at the step; another one continues. Every final result and
every late record has to come exactly once. The kills are divided among one process that is started
again, an instance of two worker processes, and two instances with standbys. The last line is JSON.
The end is 1 where a result is missing or came twice, or a step was not reached.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

from logstate.local_broker.broker import LocalBroker
from tests.campaigns.idle_kills.story import MODES, Run, every_step


def main() -> int:
    """The command line."""
    name = "python -m tests.campaigns.idle_kills"
    parser = argparse.ArgumentParser(prog=name, description=__doc__)
    parser.add_argument("--kills-per-step", type=int, default=30)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    a = parser.parse_args()
    begin, kills, wrong = time.monotonic(), Counter[str](), list[str]()
    with (
        tempfile.TemporaryDirectory(prefix="idle-kills-") as path,
        LocalBroker.start(data=Path(path) / "broker") as broker,
    ):
        for at, mode in enumerate(a.modes):
            times = (a.kills_per_step + at) // len(a.modes)
            folder = Path(path) / mode
            folder.mkdir()
            run = Run(broker.bootstrap, mode, folder, MODES[mode])
            try:
                found = run.kill_in(every_step(times), partial(print, mode, flush=True))
            finally:
                run.close()
            kills += found.kills
            wrong += [f"{mode}, {one}" for one in found.wrong]
    missed = {
        f"{kind}: {step}": a.kills_per_step - count
        for kind, step in every_step(1)
        if (count := kills[f"{kind}: {step}"]) < a.kills_per_step
    }
    figures = {
        "kills": kills.total(),
        "steps": len(kills),
        "not_reached": missed,
        "wrong": wrong,
        "seconds": round(time.monotonic() - begin),
    }
    print(json.dumps(figures, separators=(",", ":")))
    return 1 if wrong or missed else 0


if __name__ == "__main__":
    sys.exit(main())
