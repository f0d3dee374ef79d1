"""Takeover.java's counterpart: the same arguments, and it ends in order when its input ends."""

from __future__ import annotations

import logging
import sys
from datetime import timedelta
from pathlib import Path
from typing import Literal

from logstate.app.application import Application
from tests.campaigns.takeover.topologies import topology_of


def main(
    bootstrap: str,
    application_id: str,
    state_dir: str,
    topology: str,
    group_protocol: Literal["consumer", "classic"],
    _missed_after_ms: str,
) -> None:
    """Run one generation. What a pause of the machine aborts comes again here: no limit is set."""
    logging.basicConfig(level=logging.INFO)
    with Application(
        topology_of(topology, application_id),
        application_id=application_id,
        bootstrap=bootstrap,
        state_dir=Path(state_dir),
        commit_interval=timedelta(milliseconds=100),
        group_protocol=group_protocol,
    ):
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
