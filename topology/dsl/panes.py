"""Panes: when a windowed table sends early results, and the operator for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from logstate.contracts.pane import Pane
from logstate.serdes.built_in import type_of
from logstate.topology.declaring.argument_checks import check_count, check_kind
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.naming import required_name
from logstate.topology.declaring.serde_arguments import required_serde
from logstate.topology.declaring.windows import SessionWindows, SlidingWindows, duration_ms
from logstate.topology.dsl.materialized import Materialized, key_value_spec
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.dsl.suppressed import origins
from logstate.topology.dsl.table_flow import TableFlow
from logstate.topology.operators.aggregates.emit_on_close import clock_name
from logstate.topology.operators.aggregates.fold import FoldNode
from logstate.topology.operators.aggregates.panes import PaneRowSerde, PanesNode
from logstate.topology.processor.key_timers import timer_store


@dataclass(frozen=True)
class Early:
    """When a window sends early panes: after so much time, or after so many updates."""

    every_ms: int | None
    records: int | None


def early(*, every: timedelta | None = None, records: int | None = None) -> Early:
    """Send panes before the end of a window: after so much event time, or so many records.

    >>> from datetime import timedelta
    >>> from logstate import early
    >>> early(every=timedelta(seconds=10)), early(records=100)
    (Early(every_ms=10000, records=None), Early(every_ms=None, records=100))

    Args:
        every: of stream time, from the first record since the pane before. Without one nothing is
            sent.
        records: updates of the window and key since the pane before.

    Returns:
        The trigger, for ``KTable.to_pane_stream``.

    Raises:
        TopologyError: not exactly one of them is given, or it is less than 1 ms, or 1.

    Source: Beam's ``AfterWatermark.withEarlyFirings``, in event time.
    """
    if (every is None) is (records is None):
        raise declaration_error(
            f"early() takes every= or records=, found every={every!r} and records={records!r}. Give"
            " one of them."
        )
    check_count(records, "records= of early()")
    every_ms = None if every is None else duration_ms(every, "every= of early()", at_least=1)
    return Early(every_ms, records)


def pane_stream(
    table: TableFlow[Any, Any], trigger: Early | None, name: str | None
) -> StreamFlow[Any, Any]:
    """The stream of the panes of a windowed table."""
    if trigger is not None:
        check_kind(trigger, Early, "trigger=", "early(...)", "It says when panes are sent.")
    name = required_name(name, "to_pane_stream", "its store is named after it", 'name="..."')
    windowed, end_delay_ms, kept_ms = _windowed_by(table)
    use = f"store {name!r}"
    key, value = table._key_serde(None, use), table._value_serde(None, use)
    defaults = replace(table.builder.defaults, with_headers=False)
    spec = key_value_spec(Materialized(name), key, PaneRowSerde(value), defaults)
    node = PanesNode(
        name,
        store=spec,
        timers=timer_store(f"{name}-timers", key, in_memory=spec.in_memory),
        every_ms=None if trigger is None else trigger.every_ms,
        every_records=None if trigger is None else trigger.records,
        end_delay_ms=end_delay_ms,
        kept_ms=kept_ms,
        windowed=windowed,
        window_clock=clock_name(windowed.store.name, windowed.group_number, windowed.emit),
    )
    logical, type_ = table._add(node, value_changing=True), type_of(value)
    serde = None
    if type_ is None:
        logical.leaves_out.add("value")
    else:
        pane_type: Any = Pane[type_]  # type: ignore[valid-type]
        serde = required_serde(pane_type, None, f"the panes {name!r}", "value=")
    return StreamFlow(
        table.builder, name, logical, table.source_names, key, serde, needs_repartition=False
    )


def _windowed_by(table: TableFlow[Any, Any]) -> tuple[FoldNode, int, int]:
    """Return the aggregation of a windowed table.

    And how long after the end of its key a window ends, and how long after that it is open.
    """
    found = list(origins(table.node))
    windows = getattr(found[0], "windows", None)
    if len(found) > 1 or not isinstance(found[0], FoldNode) or windows is None:
        raise declaration_error(
            "to_pane_stream() needs a table of windows of one grouped stream, found"
            f" {table.name!r}: other tables have no windows, or several clocks. Aggregate in"
            " windows first, such as windowed_by(TumblingWindows(...)).count(...)."
        )
    if found[0].emit != "update":
        raise declaration_error(
            f'to_pane_stream() needs a table with emit="update", found emit="{found[0].emit}" of'
            f" {found[0].name!r}: panes are made of every update. Leave emit= out above, and choose"
            " with trigger=early(...) how many early panes there are."
        )
    if isinstance(windows, SessionWindows):
        # A session is joined by a record that is just in time itself.
        return found[0], windows.gap_ms + 1, windows.gap_ms + windows.grace_ms
    return found[0], int(isinstance(windows, SlidingWindows)), windows.grace_ms
