"""``python -m tests.conformance DIR [DIR...]``: replay vector files and compare.

Prints one line for each case that fails, with its first difference, and last
``N passed, M failed``, where every run of a case counts. Exits with 1 when any failed, or when a
folder is missing or holds no vectors.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from .suite import Verdict, folder_verdicts


def main() -> int:
    arguments = _arguments()
    passed = failed = 0
    for folder in arguments.folders:
        try:
            for verdicts in folder_verdicts(
                folder,
                only=arguments.case,
                strict=arguments.strict,
                varied=arguments.vary,
                jobs=arguments.jobs,
            ):
                bad = [verdict for verdict in verdicts if not verdict.passed]
                passed += len(verdicts) - len(bad)
                failed += len(bad)
                _report(verdicts, bad, verbose=arguments.verbose)
        except FileNotFoundError as missing:
            print(f"{missing}")
            failed += 1
    if arguments.case is not None and passed + failed == 0:
        print(f"there is no case {arguments.case}")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _report(verdicts: list[Verdict], bad: list[Verdict], *, verbose: bool) -> None:
    if bad and verbose:
        for verdict in bad:
            print(f"FAIL {verdict.case} {verdict.run}")
            for problem in verdict.problems:
                print(f"    {problem}")
    elif bad:
        first = bad[0]
        more = f" (and {len(bad) - 1} more of {len(verdicts)} runs)" if len(bad) > 1 else ""
        print(f"FAIL {first.case} {first.run}: {_one_line(first.problems[0])}{more}")
    elif verbose:
        print(f"ok   {verdicts[0].case} ({len(verdicts)} runs)")


def _one_line(problem: str) -> str:
    return " ".join(problem.split())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance",
        description="Replay recorded runs of Kafka Streams through logstate and compare.",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="folder of vectors")
    parser.add_argument("--case", metavar="NAME", help="only the case of this name")
    parser.add_argument("--verbose", action="store_true", help="every difference of every run")
    parser.add_argument(
        "--vary",
        action="store_true",
        help="every run on disk, with other commit intervals and with crashes; each counts",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="also require the orders that are not a rule (see the vectors' README)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes that share the files (default: one per processor, %(default)s here)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
