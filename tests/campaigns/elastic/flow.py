"""The application: a count per key, with every count as an output."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec

from logstate import Application, StandbySettings, StreamsBuilder, Topology

COMMIT_INTERVAL_MS = 100
#: how fast a worker reads for copies: on two cores a new instance that reads as it can takes both
_COPY_BYTES_PER_S = 5_000_000


class Event(msgspec.Struct, frozen=True, gc=False):
    """One input record, as far as it is read."""

    amount: float


class Spent(msgspec.Struct, frozen=True, gc=False):
    """The aggregate of a key, as it is written: the JVM program writes the same."""

    count: int = 0
    sum: float = 0.0

    def add(self, event: Event) -> Spent:
        """One more event."""
        return Spent(self.count + 1, self.sum + event.amount)


def topology(run: str) -> Topology:
    """``in`` to ``<run>-out``, through the store ``counts``."""
    builder = StreamsBuilder()
    counts = (
        builder.stream("in", key=str, value=Event)
        .group_by_key()
        .aggregate(Spent, lambda _, event, spent: spent.add(event), value=Spent, store="counts")
    )
    counts.to_stream().to(f"{run}-out", key=str, value=Spent)
    return builder.build()


def application(
    bootstrap: str,
    run: str,
    state_dir: Path,
    *,
    standbys: int,
    is_static: bool,
    serve: str | None = None,
) -> Application:
    """One instance."""
    return Application(
        topology(run),
        application_id=run,
        bootstrap=bootstrap,
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=COMMIT_INTERVAL_MS),
        standby_replicas=StandbySettings(replicas=standbys, bytes_per_s=_COPY_BYTES_PER_S),
        static_membership=is_static,
        serve=serve,
    )
