"""The n values of each group with the greatest scores, of grouped streams and of grouped tables.

Semantics:

- order: by falling score; values with one score by the bytes of the value. A value that is in the
  group several times counts as often.
- a value for which ``by`` returns None is not ranked. Null keys and values of a stream are dropped
  and counted.
- an update is forwarded only if the list of the group changes; an empty list deletes the row. With
  ``emit="commit"`` it is one per group and commit, if the list differs from that of the commit
  before.
- of a table, a changed row leaves its old group and enters the new one, so the next value of the
  group enters the list. Of a stream nothing leaves a group, so only the n greatest are kept.
- timestamp: the largest of the changes of the list so far.

How it works: ``rows`` has a row per group, score and value: how often it is in the group. Its keys
have the order of the ranking, so the list is the beginning of one prefix. ``store`` has the list of
each group as it was sent. A change below the last value of a full list needs no scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from logstate.contracts.drops import null_dropper
from logstate.contracts.processing import TableProcess, TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import changelog_name
from logstate.topology.graph.nodes import Children, Forward, Process
from logstate.topology.operators.aggregates.emit_on_commit import (
    AggregatedTableNode,
    held_updates,
    hold_rows_until_commit,
)
from logstate.topology.operators.aggregates.rank_serde import Ranked, group_prefix
from logstate.topology.operators.streams.key_and_id_serde import KeyAndIdSerde
from logstate.topology.operators.tables.change import Change
from logstate.topology.operators.tables.rows import WriteRow, bind_rows


class TopNNode(AggregatedTableNode):
    """``by(value)`` is the score. ``is_of_table``: the input are changes of a grouped table."""

    n: int
    by: Callable[[Any], Any]
    #: keys are group and rank, values how often
    rows: StoreSpec
    is_of_table: bool

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return (self.store, self.rows)

    def retains_records(self) -> bool:
        return True

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        read, write = bind_rows(task, self.store)
        send = self._compile_send(task, write, forward)
        ranking = Ranking(self, task)
        by, n = self.by, self.n

        def is_below(score: Any, best: Any) -> bool:
            return best is not None and len(best) == n and score < by(best[-1])

        if self.is_of_table:

            def change(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
                task.timestamp, task.headers = timestamp, headers
                new, old = change
                row, has_changed = read(key), False
                best = None if row is None else row[0]
                for value, count in ((old, -1), (new, 1)):
                    score = None if value is None else by(value)
                    if score is not None:
                        ranking.add(key, score, value, count, timestamp)
                        has_changed |= not is_below(score, best)
                if has_changed:
                    send(key, ranking.best(key), row, timestamp, headers)

            return change

        drop = null_dropper(task.dropper, self.name)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop(key)
                return
            score, row = by(value), read(key)
            if score is None or is_below(score, None if row is None else row[0]):
                return
            task.timestamp, task.headers = timestamp, headers
            ranking.add(key, score, value, 1, timestamp)
            send(key, ranking.keep_best(key, timestamp), row, timestamp, headers)

        return process

    def _compile_send(
        self, task: TaskContext, write: WriteRow, forward: TableProcess
    ) -> Callable[[Any, list[Any], Any, int, Headers], None]:
        """Return what writes and forwards the list of a group if its row has another one."""
        with_old, updates = self.sends_old_values, None
        if self.emit == "commit":
            changed = _if_changed(forward, with_old)
            forward = hold_rows_until_commit(task, changed, self.store, sends_old_values=True)
            updates, with_old = held_updates(task, self.store), True

        def send(key: Any, best: list[Any], row: Any, timestamp: int, headers: Headers) -> None:
            before, newest = None, timestamp
            if row is not None:
                before, newest = row[0], max(row[1], timestamp)
            if best == (before or []):
                return
            write(key, best or None, newest, timestamp, headers)
            if updates is not None:
                updates.time_before = None if row is None else row[1]
                newest = newest if best else timestamp  # the time of a held tombstone
            forward(key, best or None, before if with_old else None, newest, headers, True)

        return send


def _if_changed(forward: TableProcess, with_old: bool) -> TableProcess:
    """``forward`` for lists that differ from those that they replace."""

    def process(
        key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
    ) -> None:
        if new != old:
            forward(key, new, old if with_old else None, timestamp, headers, is_latest)

    return process


class Ranking:
    """The ranked rows of one task."""

    def __init__(self, node: TopNNode, task: TaskContext) -> None:
        self._n = node.n
        self._store = task.store(node.rows.name)
        assert isinstance(node.rows.key, KeyAndIdSerde)
        topic = task.topic_name(changelog_name(node.rows.name), is_internal=True)
        self._key_bytes = node.rows.key.key.serializer(topic, True)

    def add(self, key: Any, score: Any, value: Any, count: int, timestamp: int) -> None:
        """Add a value to its group, or take it out with a count of -1."""
        row_key = key, Ranked(score, value)
        found = self._store.get_row(row_key)
        if found is None and count < 0:
            # An earlier version of the values' type may have written it with other bytes.
            ranked = (one for one, _ in self._rows(key) if one[1][:2] == (score, value))
            row_key = next(ranked, row_key)
            found = self._store.get_row(row_key)
            if found is None:
                return
        total = count + (0 if found is None else found[0])
        self._store.put(row_key, (total, timestamp, None) if total else None)

    def best(self, key: Any) -> list[Any]:
        """Return the values with the greatest scores."""
        found: list[Any] = []
        for (_, ranked), row in self._rows(key):
            found += [ranked.value] * min(row[0], self._n - len(found))
            if len(found) == self._n:
                break
        return found

    def keep_best(self, key: Any, timestamp: int) -> list[Any]:
        """Return them, and remove what is ranked behind them."""
        found: list[Any] = []
        for row_key, (count, _, _) in list(self._rows(key)):
            more = min(count, self._n - len(found))
            found += [row_key[1].value] * more
            if more < count:
                self._store.put(row_key, (more, timestamp, None) if more else None)
        return found

    def _rows(self, key: Any) -> Iterator[tuple[Any, Any]]:
        rows: Iterator[tuple[Any, Any]] = self._store.prefix_scan(
            group_prefix(self._key_bytes(key))
        )
        return rows
