"""Asks for the newest cut of an application, again and again, as a Spark reader does.

A program of its own, because what it looks for ended the process. Ends when its input ends.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter

from logstate.changelog.spark import latest_cut
from logstate.contracts.errors import BrokerError


def main(bootstrap: str, application: str) -> None:
    """Says so when the first is told. At the end: how often each cut was told, and each error."""
    stopping = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        stopping.set()

    threading.Thread(target=wait, daemon=True).start()
    told: Counter[str] = Counter()
    has_begun = False
    while not stopping.is_set():
        try:
            cut = json.loads(latest_cut(bootstrap, application))
            told[json.dumps(cut["positions"])] += 1
            if not has_begun:
                print("told", flush=True)
            has_begun = True
        except BrokerError as exc:
            told[f"BrokerError: {exc}"] += 1
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:3])
