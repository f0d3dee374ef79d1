"""One attempt to move the state, in a separate process that kills itself at a step."""

from __future__ import annotations

import argparse
import os
import signal

from logstate.admin.reshard import reshard
from tests.campaigns.resharding.flow import topology

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("prefix")
    parser.add_argument("inputs")
    parser.add_argument("partitions", type=int)
    parser.add_argument("--die-at", default="", help="the step before which it dies")
    parser.add_argument("--begin", default="earliest")
    arguments = parser.parse_args()

    def on_step(step: str) -> None:
        print(step, flush=True)
        if step == arguments.die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    done = reshard(
        topology(arguments.prefix, arguments.inputs),
        application_id=arguments.prefix,
        bootstrap=arguments.bootstrap,
        partitions=arguments.partitions,
        begin=arguments.begin,
        on_step=on_step,
    )
    print(f"done {dict(done.partitions)} {dict(done.records)} {dict(done.left_behind)}")
