"""``python -m tests.campaigns.first_minutes``: type the commands of the pages for new users.

For each page, the README and the tutorial, it makes an empty home and folder and a new virtual
environment, without Java and Maven on PATH, and types what the page says, in that order. It prints
the seconds of each step, those until a program has printed the first result and the first result
from a broker, and those in total. Status 1 if a command fails or prints something else than the
page shows, if the first result from a broker takes more than five minutes, or the page more than
fifteen. Pages can be given as arguments.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.built_wheel import ROOT, built_wheel
from tests.campaigns.first_minutes.newcomer import Failed, environment, type_steps
from tests.campaigns.first_minutes.pages import steps_of
from tests.pages import TUTORIAL

PAGES = [ROOT / "README.md", TUTORIAL]
RESULT_MAX_S = 300.0
TOTAL_MAX_S = 900.0


class Seconds(NamedTuple):
    """How long it took from the empty machine; infinite if there was none."""

    first_result: float
    first_from_broker: float
    total: float

    @property
    def is_short(self) -> bool:
        """Whether a new user gets that far in the time that the documentation promises."""
        return self.first_from_broker <= RESULT_MAX_S and self.total <= TOTAL_MAX_S


def type_page(page: Path, folder: Path, wheel: Path, *, with_spark: bool) -> Seconds:
    """Type a page; raises Failed."""
    begin = time.monotonic()
    environ = environment(folder, wheel)
    total = time.monotonic() - begin
    first = from_broker = float("inf")
    has_broker = False
    for typed in type_steps(steps_of(page, with_spark=with_spark), folder, environ):
        print(f"{typed.seconds:7.1f} s  {typed.line}", flush=True)
        has_broker |= "logstate broker start" in typed.line
        if typed.line.startswith("python ") and typed.printed:
            after, text = typed.printed[0]
            first = min(first, total + after)
            if has_broker and from_broker == float("inf"):
                from_broker = total + after
                print(f"{'':11}first result from the broker: {text!r}", flush=True)
        total += typed.seconds
    return Seconds(first, from_broker, total)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.first_minutes")
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES)
    parser.add_argument("--spark", action="store_true", help="also the parts with PySpark")
    given = parser.parse_args()
    slow = []
    with tempfile.TemporaryDirectory(prefix="first-minutes-") as built:
        wheel = built_wheel(Path(built))
        for page in given.pages:
            print(f"{page.name}:")
            with tempfile.TemporaryDirectory(prefix="first-minutes-") as folder:
                try:
                    seconds = type_page(page, Path(folder), wheel, with_spark=given.spark)
                except Failed as failure:
                    print(failure)
                    return 1
            print(
                f"{page.name}: first result {seconds.first_result:.0f} s, from the broker"
                f" {seconds.first_from_broker:.0f} s (at most {RESULT_MAX_S:g} s), total"
                f" {seconds.total:.0f} s (at most {TOTAL_MAX_S:g} s)"
            )
            if not seconds.is_short:
                slow.append(page)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
