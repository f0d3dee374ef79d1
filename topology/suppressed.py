"""What `suppress` waits for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from logstate.errors import TopologyError
from logstate.topology.declared import declaration_site
from logstate.topology.logical import LogicalNode
from logstate.topology.windows import to_ms


@dataclass(frozen=True)
class Suppressed:
    """Made by :func:`until_window_closes` and :func:`until_time_limit`."""

    until: Literal["window_closes", "time_limit"]
    limit_ms: int | None
    max_records: int | None
    max_bytes: int | None
    logged: bool

    @property
    def when_full(self) -> Literal["shut_down", "emit_early"]:
        """Final results may never be sent early; others may."""
        return "shut_down" if self.until == "window_closes" else "emit_early"


def until_window_closes(
    *, max_records: int | None = None, max_bytes: int | None = None, logged: bool = True
) -> Suppressed:
    """Send only final results: one per window, when stream time reaches its end + grace.

    A full buffer stops the application, because sending early would break the promise.
    """
    return Suppressed("window_closes", None, max_records, max_bytes, logged)


def until_time_limit(
    limit: timedelta,
    *,
    max_records: int | None = None,
    max_bytes: int | None = None,
    logged: bool = True,
) -> Suppressed:
    """Send at most one update per key and ``limit`` of event time, counted from the first.

    A full buffer sends its oldest row early (it may be the one that just came).
    """
    return Suppressed(
        "time_limit", to_ms(limit, "limit of suppress"), max_records, max_bytes, logged
    )


def window_grace_ms(node: LogicalNode) -> int:
    """How long the windows of a table stay open after their end; raises if it has none."""
    if node.window_grace_ms is not None:
        return node.window_grace_ms
    if not node.parents or all(parent.priority < 0 for parent in node.parents):
        raise TopologyError(
            f"suppress until_window_closes() needs windowed keys, but nothing above {node.name!r}"
            " makes windows: no row would ever be final. Use until_time_limit(...), or aggregate"
            " in windows first.",
            declared_at=declaration_site(),
        )
    return max(window_grace_ms(parent) for parent in node.parents)
