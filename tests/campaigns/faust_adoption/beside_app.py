"""A Faust worker with a logstate application in its process; both count the same topic."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path

import faust

from logstate.app.application import Application
from logstate.faust import attach, record_of
from logstate.topology import StreamsBuilder
from tests.campaigns.faust_adoption.faust_app import INPUT, Visit, counting

#: the variable with the session time-out of Faust; its own options are the command line's
SESSION_S = "FAUST_SESSION_S"


def streams(name: str, bootstrap: str, folder: Path) -> Application:
    """The logstate half: amounts by page."""
    builder = StreamsBuilder()
    visits = builder.stream(f"{name}-{INPUT}", key=str, value=record_of(Visit))
    visits.group_by_key().aggregate(
        lambda: 0, lambda total, visit: total + visit.amount, value=int, store="amounts"
    )
    return Application(
        builder.build(),
        application_id=f"{name}-streams",
        bootstrap=bootstrap,
        state_dir=folder / "streams",
        commit_interval=timedelta(milliseconds=100),
    )


def together(name: str, bootstrap: str, folder: Path, session_s: float) -> faust.App:
    """Both, as one Faust application; a worker that was killed is missed after its session."""
    app = counting(
        name,
        bootstrap,
        str(folder / "faust"),
        broker_session_timeout=session_s,
        broker_heartbeat_interval=1.0,
    )
    attach(app, streams(name, bootstrap, folder))
    return app


if __name__ == "__main__":
    faust.Worker(
        together(sys.argv[1], sys.argv[2], Path(sys.argv[3]), float(os.environ[SESSION_S])),
        loglevel="info",
    ).execute_from_commandline()
