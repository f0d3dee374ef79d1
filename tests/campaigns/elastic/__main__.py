"""Start, stop and kill instances under load; the last line is JSON.

Run ``python -m tests.campaigns.elastic``.

With ``--standalone`` the JVM library is left out. With ``--causes`` a second thread of every
instance looks at its worker, and each move says what its longest pause was made of; that costs the
worker a twentieth of a core, so figures are taken without.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.campaigns.elastic.story import Story


def main() -> int:
    """The command line; 1 where something was lost or doubled."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.elastic", description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--per-second", type=int, default=5_000)
    parser.add_argument("--kills", type=int, default=3, help="kill -9 of one of three, so often")
    parser.add_argument("--standalone", action="store_true", help="without Kafka Streams")
    parser.add_argument("--causes", action="store_true", help="say what pauses are made of")
    parser.add_argument("--keep", type=Path, help="keep state and logs in this new directory")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="elastic-") as temporary:
        story = Story(a.keep or Path(temporary), a.keys, a.per_second, _say)
        story.fleet.explains = a.causes
        try:
            story.run(a.kills)
            story.finish()
            if not a.standalone:
                story.run_jvm()
        finally:
            story.close()
    figures = story.findings.figures()
    _say(json.dumps(figures, separators=(",", ":")))
    return 1 if figures["lost"] or figures["duplicated"] else 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
