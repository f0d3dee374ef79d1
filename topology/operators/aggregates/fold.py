"""The step of an aggregation of a stream, as text: read a row, fold a value in, write, forward.

One text for all variants, with windows or without. A function is generated from it for each node,
so that no tests of the node's options are needed per record.

The result's timestamp is the largest of all records that went in. A null result deletes the row,
logged with the time of the record that caused it, and the next record begins with the
initializer's value. With ``emit="update"`` the initializer's value is the old value of the first
change of a row, as in Kafka Streams without a cache: a downstream subtractor sees it. With
``emit="commit"`` a row has no old value until it was emitted, as in Kafka Streams with a cache.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import field
from functools import lru_cache
from textwrap import indent
from typing import Any, Literal

from logstate.contracts.drops import Drop, null_dropper
from logstate.contracts.generated_code import make_function
from logstate.contracts.processing import StreamProcess, TableProcess, TaskContext
from logstate.contracts.records import Windowed
from logstate.topology.declaring.declaration_site import function_site
from logstate.topology.graph.nodes import Children, Forward, Process
from logstate.topology.operators.aggregates.emit_on_commit import (
    AggregatedTableNode,
    Difference,
    hold_rows_until_commit,
)
from logstate.topology.operators.aggregates.initial_values import new_values
from logstate.topology.operators.streams.late_records import expired_output
from logstate.topology.operators.tables.rows import bind_rows
from logstate.topology.operators.tables.to_stream import stream_below

_LOGGER = logging.getLogger(__name__)
#: the texts are few, and every start of a task needs them
_indented = lru_cache(maxsize=1_000)(indent)

_NULL_HEAD = """\
if key is None or value is None:
    drop(key)
    return
"""
_ROW = """\
row = {read}
if row is None:
    old = initializer()
    newest = timestamp
else:
    old, newest, _ = row
    if timestamp > newest:
        newest = timestamp
new = {folded}
"""
#: the store still holds the row as it was: nothing has been written yet
_COPIED_OLD = """\
old = initializer() if row is None else {read}[0]
"""
#: the old value of a buffered update and of an exact change: that of the replaced row, or None
_REPLACED = """\
replaced = None if row is None else {old}
"""
#: the timestamp of a held tombstone
_DELETED_AT = """\
if new is None:
    newest = timestamp
"""
_PUT = """\
if new is None:
    note_deletion()
    task.timestamp = timestamp
    task.headers = headers
    put(key, None{start})
else:
    put(key, (new, newest, None){start})
"""
#: if it is not the latest, it is kept in the history or was too old to be written at all
_PUT_VERSION = """\
if new is None:
    note_deletion()
is_latest = write(key, new, newest, timestamp, headers)
if is_latest is None:
    {too_old}return
"""
_EMIT_LATE = "emit_late(key, value, timestamp, headers)\n    "
_ROW_BEFORE = """\
updates.time_before = None if row is None else row[1]
"""
_FUNCTION = """\
def bind({names}):
    def process(key, value, timestamp, headers):
{body}
    return process
"""


def count_one(_key: Any, _value: Any, aggregate: int) -> int:
    """The aggregator of count()."""
    return aggregate + 1


def _count_one_more(aggregate: int, _value: Any) -> int:
    return aggregate + 1


count_one.by_value = _count_one_more  # type: ignore[attr-defined]  # see logstate.topology.declaring.callbacks


class FoldNode(AggregatedTableNode):
    """``initializer()`` makes an aggregate, ``aggregator(key, value, aggregate)`` folds."""

    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    #: of two aggregates; not None: what is emitted on commit are differences
    difference: Difference | None = None
    #: other groups write the same rows, so updates are buffered in the merge node
    is_cogrouped: bool = field(default=False, init=False)

    @property
    def operation(self) -> str | None:
        return "count" if self.aggregator is count_one else None

    @property
    def sends_deltas(self) -> bool:
        return self.difference is not None

    def retains_records(self) -> bool:
        return self.initializer is no_aggregate

    def commit_buffered(self, task: TaskContext, forward: TableProcess) -> TableProcess:
        """Return the target of the results: ``forward``, or a buffer in front of it."""
        if self.emit != "commit" or self.is_cogrouped:
            return forward
        return hold_rows_until_commit(
            task,
            forward,
            self.store,
            sends_old_values=self.sends_old_values,
            difference=self.difference,
        )


def no_aggregate() -> None:
    """The initializer of a reduce: its aggregator takes the first value unchanged."""


def deletion_note(node: FoldNode, task: TaskContext) -> Callable[[], None]:
    """Return a function to call for every None of the aggregator; warns once, unless declared."""
    has_warned = node.store.deletes

    def note() -> None:
        nonlocal has_warned
        if not has_warned:
            has_warned = True
            _LOGGER.warning(
                "the aggregator %s returned None, which deletes the row (node %r, task %s, topic"
                " %r, partition %d, offset %d); this is logged once. If a `return` was forgotten,"
                " add it; if it is intended, declare it: store=Materialized(%r, deletes=True)",
                function_site(getattr(node.aggregator, "by_value", node.aggregator)),
                node.name,
                task.task_id,
                task.topic,
                task.partition,
                task.offset,
                node.store.name,
            )

    return note


def make_fold(
    node: FoldNode,
    task: TaskContext,
    forward: Callable[..., None] | None,
    *,
    head: str,
    kind: Literal["key", "window", "windows"],
    too_old: Drop | None = None,
    **names: Any,
) -> StreamProcess:
    """Generate the closure of a node: the lines of ``head``, which use ``names``, then the step.

    Without ``forward`` only the row is updated. By ``kind`` there is a row per key, or per key and
    ``start``; for "windows" the head ends in a loop. ``too_old``: what a versioned store calls
    instead of dropping a version, followed by ``emit_late`` of ``names``.
    """
    store = task.store(node.store.name)
    # An aggregator may change its argument, so the old value must be a separate copy.
    copies_old = node.sends_old_values and not node.store.value.immutable
    by_value = getattr(node.aggregator, "by_value", None)
    names |= {"initializer": new_values(node.initializer, node.store), "task": task}
    names["aggregator"] = by_value or node.aggregator
    names["note_deletion"] = deletion_note(node, task)
    if kind != "key":
        names |= {"fetch_row": store.fetch_row, "put": store.put}
        read, start = "fetch_row(key, start)", ", start"
        if not copies_old:
            names |= {"row_of_window": store.row_of_window, "to_oldest": store.to_oldest}
            names["newest_start"] = store.segments.cell
            is_live = "start >= newest_start.time + to_oldest"
            read = f"row_of_window((key, start)) if {is_live} else None"
    else:
        names["read"], names["write"] = bind_rows(task, node.store, too_old)
        names["put"], read, start = store.put, "read(key)", ""
    folded = "(key, value, old)" if by_value is None else "(old, value)"
    step = _ROW.format(read=read, folded=f"aggregator{folded}")
    is_held = node.emit == "commit"
    is_exact = is_held or node.sends_exact_changes
    if is_exact:
        step += _REPLACED.format(old=f"{read}[0]" if copies_old else "row[0]")
    elif copies_old:
        step += _COPIED_OLD.format(read=read)
    if node.is_versioned() or node.store.ttl_ms is not None:
        step += _PUT_VERSION.format(too_old="" if too_old is None else _EMIT_LATE)
    else:
        step += _PUT.format(start=start)
    step += _DELETED_AT if is_held else ""
    updates = node.rows_before(task)
    if updates is not None:
        names["updates"] = updates
        step += _ROW_BEFORE
    if forward is not None:
        below = stream_below(forward)
        names["forward"] = forward if below is None else below
        if kind != "key":
            # Half the time of a named tuple's own constructor, which is a Python function.
            names |= {"new_tuple": tuple.__new__, "Windowed": Windowed}
            step += "windowed = new_tuple(Windowed, (key, start, end))\n"
        result = "key" if kind == "key" else "windowed"
        old = "replaced" if is_exact else "old" if node.sends_old_values else "None"
        is_latest = "is_latest" if node.is_versioned() else "True"
        change = f"new, {old}, newest, headers, {is_latest}"
        if below is not None:
            change = "new, newest, headers"
        step += f"forward({result}, {change})\n"
    body = head + (_indented(step, "    ") if kind == "windows" else step)
    source = _FUNCTION.format(names=", ".join(names), body=_indented(body, " " * 8))
    bind = make_function("bind", source, f"aggregate per {kind}")
    process: StreamProcess = bind(**names)
    return process


class AggregateNode(FoldNode):
    """One row per key."""

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        forward = self.commit_buffered(task, forward)
        names: dict[str, Any] = {"drop": null_dropper(task.dropper, self.name)}
        too_old, emit_late = expired_output(self, children)
        if emit_late is not None:
            names["emit_late"] = emit_late
        return make_fold(self, task, forward, head=_NULL_HEAD, kind="key", too_old=too_old, **names)
