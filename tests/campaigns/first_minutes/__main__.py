"""``python -m tests.campaigns.first_minutes``: type the commands of the pages for new users.

For each page it makes an empty home and folder and a new virtual environment, without Java and
Maven on PATH, and types what the page says, in that order. It prints the seconds of each step, and
those until the page's program has printed the first result of a topology on a broker. Status 1 if
a command fails or that takes more than five minutes. Pages can be given as arguments.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.built_wheel import ROOT, built_wheel
from tests.campaigns.first_minutes.newcomer import Failed, environment, stop_broker, type_steps
from tests.campaigns.first_minutes.pages import steps_of

PAGES = [ROOT / "README.md"]
SECONDS_MAX = 300.0


def first_result_s(page: Path, folder: Path, wheel: Path) -> float | None:
    """Type a page; return the seconds until its program printed, None if it never did."""
    environ = environment(folder, wheel)
    total, first = 0.0, None
    try:
        for typed in type_steps(steps_of(page), folder, environ):
            print(f"{typed.seconds:7.1f} s  {typed.line}", flush=True)
            if first is None and typed.line.startswith("python ") and typed.printed:
                after, text = typed.printed[0]
                first = total + after
                print(f"{'':11}first result: {text!r}", flush=True)
            total += typed.seconds
    finally:
        stop_broker(folder, environ)
    return first


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.first_minutes")
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="first-minutes-") as built:
        wheel = built_wheel(Path(built))
        slow = []
        for page in given.pages:
            print(f"{page.name}:")
            with tempfile.TemporaryDirectory(prefix="first-minutes-") as folder:
                try:
                    first = first_result_s(page, Path(folder), wheel)
                except Failed as failure:
                    print(failure)
                    return 1
            print(f"the first result after {first or 0:.1f} s (at most {SECONDS_MAX:g} s)")
            if first is None or first > SECONDS_MAX:
                slow.append(page)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
