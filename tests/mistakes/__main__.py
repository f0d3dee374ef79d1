"""``python -m tests.mistakes [-v]``: one line per mistake; the last line counts."""

from __future__ import annotations

import sys
from collections import Counter

from tests.mistakes import (  # noqa: F401  each registers its own
    configuring,
    declaring,
    local_brokers,
    running,
    upgrading,
)
from tests.mistakes.mistake import MISTAKES, Verdict, judged


def verdicts() -> list[Verdict]:
    """Of every mistake, in the order of their declaration."""
    return [judged(one) for one in MISTAKES]


def main() -> int:
    """Print the table; 1 where a mistake is silent or its answer unhelpful."""
    found = verdicts()
    for verdict in found:
        lines = verdict.answer.splitlines() or [""]
        print(f"{verdict.kind:10} {verdict.name:60} {lines[0][:140]}")
        for part in verdict.missing:
            print(f"           missing: {part}")
        if "-v" in sys.argv:
            print(*lines[1:], sep="\n")
    counts = Counter(verdict.kind for verdict in found)
    print(f"{len(found)} mistakes, {counts['silent']} silent, {counts['unhelpful']} unhelpful")
    return 1 if counts["silent"] or counts["unhelpful"] else 0


if __name__ == "__main__":
    sys.exit(main())
