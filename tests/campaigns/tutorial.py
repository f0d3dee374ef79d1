"""The tutorial from an empty folder and an empty HOME, with an environment that pip fills.

    python -m tests.campaigns.tutorial [--spark]

Prints the seconds to the first result, to the first result of the service, and in total; exits
with 1 if a command fails, prints something else than the page shows, or the total is over 15
minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import venv
from pathlib import Path

from tests import tutorial
from tests.built_wheel import built_wheel

LIMIT_S = 15 * 60.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spark", action="store_true", help="also the part with PySpark")
    with_spark = parser.parse_args().spark
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = built_wheel(folder / "built")
        home, work = folder / "home", folder / "work"
        home.mkdir()
        work.mkdir()
        started = time.time()
        venv.create(folder / "venv", with_pip=True)
        path = f"{folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        # The index and the proxy of this machine, of which a user has their own.
        variables = {name: one for name, one in os.environ.items() if _is_of_the_network(name)}
        links = f"{wheel.parent} {variables.get('PIP_FIND_LINKS', '')}".strip()
        variables |= {"HOME": str(home), "PATH": path, "PIP_FIND_LINKS": links}
        made_s = time.time() - started
        steps = tutorial.steps(with_spark=with_spark)
        seconds = tutorial.run(work, steps, variables, timeout_s=2 * LIMIT_S)
    ends = [made_s + seconds[step.place] for step in steps]
    printed = [end for step, end in zip(steps, ends, strict=True) if step.expected]
    service = next(
        end for step, end in zip(steps, ends, strict=True) if "service.py" in step.commands
    )
    print(f"first result {printed[0]:.0f} s, service {service:.0f} s, total {ends[-1]:.0f} s")
    return int(ends[-1] > LIMIT_S)


def _is_of_the_network(name: str) -> bool:
    return name.lower() in ("http_proxy", "https_proxy", "no_proxy") or (
        name.startswith(("PIP_", "SSL_", "REQUESTS_", "LOGSTATE_MAVEN", "LOGSTATE_REPO"))
    )


if __name__ == "__main__":
    sys.exit(main())
