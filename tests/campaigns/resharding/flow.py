"""An application with stores of many kinds, and what they hold by a model of plain dictionaries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from logstate import (
    Materialized,
    SessionWindows,
    StreamsBuilder,
    TumblingWindows,
    until_window_closes,
)
from logstate.app.application import Application
from logstate.topology.plan.plan import Topology

WINDOW_MS = 60_000
GAP_MS = 1_000
#: far longer than a story: nothing is late, nothing expires
LONG = timedelta(days=30)


class Click(NamedTuple):
    """One record of the input."""

    user: str
    page: str
    time_ms: int


def topology(prefix: str, inputs: str) -> Topology:
    """Counts of clicks, in stores of every kind that a stream without a second one can fill."""
    # Every record looks for closed windows: how fast a story goes on must not decide what it sends.
    builder = StreamsBuilder(window_emit_interval=timedelta(0))
    clicks = builder.stream(inputs, key=str, value=str)
    by_user = clicks.group_by_key()
    by_user.count(store="per-user")
    window = timedelta(milliseconds=WINDOW_MS)
    windows = TumblingWindows(size=window)
    minutes = by_user.windowed_by(windows).count(store=Materialized("per-minute", retention=LONG))
    calm = minutes.suppress(until_window_closes(), name="calm")
    calm.to_stream().to(f"{prefix}-calm")
    closed = by_user.windowed_by(windows).count(
        store=Materialized("closed", retention=LONG), emit="close"
    )
    closed.to_stream().to(f"{prefix}-closed")
    sessions = SessionWindows(gap=timedelta(milliseconds=GAP_MS))
    by_user.windowed_by(sessions).count(store=Materialized("sessions", retention=LONG))
    clicks.to_table(store=Materialized("latest", history=LONG))
    by_page = clicks.group_by(lambda user, page: page, name="by-page", key=str)
    by_page.count(store="per-page")
    return builder.build()


def application(bootstrap: str, prefix: str, inputs: str, state_dir: Path) -> Application:
    """One instance."""
    return Application(
        topology(prefix, inputs),
        application_id=prefix,
        bootstrap=bootstrap,
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=100),
        changelog_writes="commit",
    )


@dataclass
class Model:
    """What the stores hold, and what was sent as final."""

    per_user: Counter[str] = field(default_factory=Counter)
    per_minute: Counter[tuple[str, int]] = field(default_factory=Counter)
    sessions: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    latest: dict[str, str] = field(default_factory=dict)
    per_page: Counter[str] = field(default_factory=Counter)

    def add(self, clicks: Iterable[Click]) -> None:
        for user, page, time_ms in clicks:
            self.per_user[user] += 1
            self.per_minute[user, time_ms // WINDOW_MS * WINDOW_MS] += 1
            self.per_page[page] += 1
            self.latest[user] = page
            known = self.sessions.setdefault(user, [])
            if known and time_ms - known[-1][1] <= GAP_MS:
                start, _, count = known.pop()
                known.append((start, time_ms, count + 1))
            else:
                known.append((time_ms, time_ms, 1))

    def differences(self, app: Application) -> list[str]:
        """Where the stores of a running application say something else."""
        found: dict[str, Any] = {
            "per-user": {key: row.value for key, row in app.store("per-user").all()},
            "per-minute": _windows(app, "per-minute"),
            "closed": _windows(app, "closed"),
            "sessions": {
                (key.key, key.start_ms, key.end_ms): count
                for key, count in app.store("sessions").all()
            },
            "per-page": {key: row.value for key, row in app.store("per-page").all()},
            "latest": {
                user: None if (row := app.store("latest").get(user)) is None else row.value
                for user in self.latest
            },
        }
        wanted: dict[str, Any] = {
            "per-user": self.per_user,
            "per-minute": self.per_minute,
            # Windows that were sent before the move stay behind where others were not.
            "closed": {key: self.per_minute[key] for key in found["closed"]},
            "sessions": {
                (user, start, end): count
                for user, known in self.sessions.items()
                for start, end, count in known
            },
            "per-page": self.per_page,
            "latest": self.latest,
        }
        return [
            f"{name}: {len(found[name])} rows of {len(wanted[name])}, total"
            f" {_total(found[name])} of {_total(wanted[name])}"
            for name in wanted
            if found[name] != wanted[name]
        ]


def _windows(app: Application, store: str) -> dict[tuple[str, int], int]:
    return {(key.key, key.start_ms): row.value for key, row in app.store(store).all()}


def _total(rows: dict[Any, Any]) -> int:
    return sum(value for value in rows.values() if isinstance(value, int))
