"""What a tick of a task calls, and what is still open in its operators that close on idle.

An operator below another one that closes on idle waits until nothing is open above it: its idle
time begins at the tick that has closed the last of it. What is above in other tasks, their cuts
say: :meth:`IdleTicks.note_open` writes it into the clocks of each commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from logstate.contracts.processing import IdleOperator, IdleTime, TimeCell
from logstate.topology.graph.idle_order import closing, closing_above
from logstate.topology.graph.sub_topology import SubTopology

_NEVER_OPEN = float("-inf")


@dataclass
class _Entry:
    """An operator, and when something above it was last found open, in monotonic ms."""

    operator: IdleOperator
    nodes: list[str]
    above: list[IdleOperator] = field(default_factory=list)
    open_above_ms: float = _NEVER_OPEN

    def time(self, idle: IdleTime) -> IdleTime:
        """Return for how long the inputs have been idle and nothing was open above."""
        return IdleTime(max(idle.since_ms, self.open_above_ms), idle.now_ms)

    def look_above(self, now_ms: float) -> None:
        if any(one.is_open() for one in self.above):
            self.open_above_ms = now_ms


class IdleTicks:
    """The operators whose stream time advances while the inputs of the task are idle.

    A tick calls them in the order of the topology; they are compiled children first. What it
    changes and emits belongs to the next commit, like the effects of a scheduled callback; if that
    fails, the tick is made again once the inputs have been idle for as long again.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        #: clocks of the cut that say whether something is open, and of which operators
        self._awaited: list[tuple[TimeCell, list[IdleOperator]]] = []
        #: whether a commit has had these clocks since the start
        self.has_noted_open = True

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, name: str, operator: IdleOperator, node: str) -> None:
        """Register the operator of a node, unless there is one of the same clock."""
        self._entries.setdefault(name, _Entry(operator, [])).nodes.append(node)

    def connect(self, parts: Sequence[SubTopology], time_cell: Callable[[str], TimeCell]) -> None:
        """Find out which operators wait for which, once all are registered."""
        if not self._entries:
            return
        by_node: dict[str, list[IdleOperator]] = {}
        for entry in self._entries.values():
            for node in entry.nodes:
                by_node.setdefault(node, []).append(entry.operator)
        above = closing_above(parts)
        for entry in self._entries.values():
            names = sorted(frozenset[str]().union(*(above.get(node, ()) for node in entry.nodes)))
            entry.above = [one for name in names for one in by_node.get(name, ())]
        awaited: dict[str, list[IdleOperator]] = {}
        for part in parts:
            for one in closing(part.nodes):
                if one.is_awaited:
                    awaited.setdefault(one.open_clock, []).extend(by_node.get(one.name, ()))
        self._awaited = [(time_cell(clock), found) for clock, found in awaited.items()]
        self.has_noted_open = not self._awaited

    def clear(self) -> None:
        """Forget the operators: they are compiled again."""
        self._entries.clear()
        self._awaited = []
        self.has_noted_open = True

    def note_open(self) -> None:
        """Write into the clocks of the cut what is open, for the tasks that wait for that."""
        for cell, operators in self._awaited:
            cell.time = int(any(one.is_open() for one in operators))
        self.has_noted_open = True

    def is_due(self, idle: IdleTime) -> bool:
        """Return True if a tick would change something."""
        return any(_is_due(entry, idle) for entry in self._entries.values())

    def run(
        self,
        idle: IdleTime,
        guarded: Callable[[str, Callable[[int], None]], Callable[[int], None]],
        now_ms: int,
    ) -> None:
        """Call the operators; ``guarded`` adds the handling of errors to a named callback."""

        def tick_of(entry: _Entry) -> Callable[[int], None]:
            return lambda _: entry.operator.tick(entry.time(idle))

        for entry in self._entries.values():  # before any of them closes something
            entry.look_above(idle.now_ms)
        for name, entry in reversed(self._entries.items()):
            guarded(f"close_on_idle of {name}", tick_of(entry))(now_ms)


def _is_due(entry: _Entry, idle: IdleTime) -> bool:
    if not entry.operator.is_due(entry.time(idle)):
        return False
    entry.look_above(idle.now_ms)
    return entry.operator.is_due(entry.time(idle)) if entry.above else True


def is_open_in(clocks: Mapping[str, int], names: Sequence[str]) -> bool:
    """Return whether something is open by the clocks of a cut, or may be: it does not say so.

    >>> is_open_in({"open:counts": 0}, ["open:counts"]), is_open_in({}, ["open:counts"])
    (False, True)
    """
    return any(clocks.get(name) != 0 for name in names)
