"""The conditions of `suppress`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from logstate.topology.declaring.argument_checks import check_count, check_flags
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.windows import duration_ms
from logstate.topology.graph.logical import LogicalNode
from logstate.topology.graph.nodes import TableNode
from logstate.topology.operators.aggregates.cogroup_merge import CogroupMergeNode
from logstate.topology.operators.aggregates.fold import FoldNode
from logstate.topology.operators.joins.table_join import TableJoinMergeNode
from logstate.topology.operators.tables.derived_tables import DerivedNode
from logstate.topology.operators.tables.suppress import SuppressNode


@dataclass(frozen=True)
class Suppressed:
    """The condition of ``suppress``: :func:`until_window_closes` or :func:`until_time_limit`.

    >>> from logstate import until_window_closes
    >>> until_window_closes(max_records=1_000).when_full
    'shut_down'

    Source: Kafka Streams' ``Suppressed`` (KIP-328).
    """

    until: Literal["window_closes", "time_limit"]
    limit_ms: int | None
    max_records: int | None
    max_bytes: int | None
    logged: bool
    #: final results may never be sent early; others may
    when_full: Literal["shut_down", "emit_early"] = "shut_down"
    changelog_config: Mapping[str, str] = field(default_factory=dict)
    #: of a time limit; windows have their own
    close_on_idle_ms: int | None = None


def until_window_closes(
    *,
    max_records: int | None = None,
    max_bytes: int | None = None,
    logged: bool = True,
    changelog_config: Mapping[str, str] | None = None,
) -> Suppressed:
    """Send only final results: one per window.

    >>> from datetime import timedelta
    >>> from logstate import StreamsBuilder, TopologyTestDriver
    >>> from logstate import TumblingWindows, until_window_closes
    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", value=str).group_by_key()
    >>> counts = clicks.windowed_by(TumblingWindows(size=timedelta(seconds=1))).count(store="n")
    >>> final = counts.suppress(until_window_closes(), name="final")
    >>> final.to_stream(lambda window, n: window.key).to("out", key=str)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("clicks", [("ada", "a", 0), ("ada", "b", 5), ("bob", "a", 1000)])
    ...     driver.read_with_timestamps("out", value=int)
    [('ada', 2, 5)]

    Semantics: a window's row leaves when stream time reaches the window's end + grace. What it was
    before does not: no updates, no tombstones. A full buffer stops the application, because sending
    early would break the promise. ``emit="close"`` of the aggregation needs no buffer, but loses
    what its store expires before a look; nothing is lost here, however far event time jumps.
    Windows with ``close_on_idle`` leave the buffer, too, when the inputs are idle.

    Args:
        max_records: how many windows may wait; any number if not given.
        max_bytes: how many bytes they may have, estimated; any number if not given.
        logged: whether the buffer has a changelog. Without one what waits is lost when the
            partition moves.
        changelog_config: settings of the changelog topic, over those that the buffer needs.

    Returns:
        The condition for ``KTable.suppress``.

    Raises:
        TopologyError: a maximum below 1: the first window that has to wait would be one too many;
            settings without a changelog; where it is used, settings that would lose rows.

    Source: Kafka Streams' ``Suppressed.untilWindowCloses`` (KIP-328).
    """
    check_count(max_records, "max_records of suppress")
    check_count(max_bytes, "max_bytes of suppress")
    check_flags("suppress", logged=logged)
    return Suppressed(
        "window_closes",
        None,
        max_records,
        max_bytes,
        logged,
        changelog_config=_config(changelog_config, logged=logged),
    )


def until_time_limit(
    limit: timedelta,
    *,
    max_records: int | None = None,
    max_bytes: int | None = None,
    shut_down_when_full: bool = False,
    logged: bool = True,
    changelog_config: Mapping[str, str] | None = None,
    close_on_idle: timedelta | None = None,
) -> Suppressed:
    """Send at most one update per key and ``limit`` of event time.

    >>> from datetime import timedelta
    >>> from logstate import StreamsBuilder, TopologyTestDriver, until_time_limit
    >>> builder = StreamsBuilder()
    >>> prices = builder.table("prices", value=int, store="prices")
    >>> slow = prices.suppress(until_time_limit(timedelta(seconds=1)), name="slow")
    >>> slow.to_stream().to("out")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("prices", [("tea", 3, 0), ("tea", 4, 999), ("rum", 9, 1_000)])
    ...     driver.read("out", value=int)
    [('tea', 4)]

    Semantics: the first update of a key starts its clock, later ones replace the buffered value
    without resetting it; tombstones count as updates. A full buffer sends its oldest rows early,
    possibly the newest one, too; with ``max_records=0`` nothing waits. With ``shut_down_when_full``
    it stops the application instead, after due rows were sent.

    Args: as for :func:`until_window_closes`, and
        limit: how long updates are collected, in event time.
        shut_down_when_full: never send early. It needs a maximum.
        close_on_idle: send what waits without a later record once the inputs of the task have been
            idle for this long, at least 1 ms; None: it waits for a later record.

    Raises:
        TopologyError: the limit is not a timedelta in whole milliseconds, or negative; a maximum
            below 0; ``shut_down_when_full`` without a maximum, or with one of 0; and as there.

    Source: Kafka Streams' ``Suppressed.untilTimeLimit`` with an eager ``BufferConfig``, or a strict
    one (KIP-328).
    """
    check_flags("suppress", logged=logged, shut_down_when_full=shut_down_when_full)
    if shut_down_when_full and max_records is None and max_bytes is None:
        raise declaration_error(
            "until_time_limit(shut_down_when_full=True) needs max_records= or max_bytes=: a buffer"
            " without a maximum is never full."
        )
    least = 1 if shut_down_when_full else 0
    check_count(max_records, "max_records of suppress", least=least)
    check_count(max_bytes, "max_bytes of suppress", least=least)
    return Suppressed(
        "time_limit",
        duration_ms(limit, "limit of suppress"),
        max_records,
        max_bytes,
        logged,
        when_full="shut_down" if shut_down_when_full else "emit_early",
        changelog_config=_config(changelog_config, logged=logged),
        close_on_idle_ms=None
        if close_on_idle is None
        else duration_ms(close_on_idle, "close_on_idle of suppress", at_least=1),
    )


def _config(given: Mapping[str, str] | None, *, logged: bool) -> Mapping[str, str]:
    if given and not logged:
        raise declaration_error(
            f"suppress has logged=False and changelog_config={given!r}: without a changelog"
            " topic it has no use. Leave out one of them."
        )
    return {} if given is None else given


def window_grace_ms(node: LogicalNode) -> int:
    """How long the windows of a table stay open after their end; raises if it has none."""
    if node.window_grace_ms is not None:
        return node.window_grace_ms
    is_top = not node.parents or all(parent.priority < 0 for parent in node.parents)
    if is_top or node.ends_windows:
        raise declaration_error(
            f"suppress until_window_closes() needs windowed keys, but nothing above {node.name!r}"
            " makes windows: no row would ever be final. Use until_time_limit(...), or aggregate"
            " in windows first."
        )
    return max(window_grace_ms(parent) for parent in node.parents)


def windowed_origins(table: TableNode) -> tuple[FoldNode, ...]:
    """Return the aggregations of which a table is computed, if it is computed of nothing else.

    None are found beyond a topic: they run in another task.
    """
    tables = [*origins(table)]
    found = tuple(one for one in tables if isinstance(one, FoldNode))
    return found if len(found) == len(tables) else ()


def origins(table: TableNode) -> Iterator[TableNode]:
    """The tables of the same task that are not computed from other tables."""
    if isinstance(table, CogroupMergeNode):
        parents = table.parents
    elif isinstance(table, TableJoinMergeNode):
        parents = table.left.this, table.right.this
    elif isinstance(table, DerivedNode | SuppressNode):
        parents = (table.parent,)
    else:
        parents = ()
        yield table
    for parent in parents:
        yield from origins(parent)
