"""The operators of one task whose stream time advances while its inputs are idle.

A tick calls them in the order of the topology. What it changes and emits belongs to the next
commit, like the effects of a scheduled callback; if that fails, the tick is made again once the
inputs have been idle for as long again.
"""

from __future__ import annotations

from collections.abc import Callable

from logstate.contracts.processing import IdleOperator, IdleTime


class IdleTicks:
    """The registered operators. They are compiled children first, and called parents first."""

    def __init__(self) -> None:
        self._operators: dict[str, IdleOperator] = {}

    def __bool__(self) -> bool:
        return bool(self._operators)

    def add(self, name: str, operator: IdleOperator) -> None:
        """Register an operator, unless there is one of the same clock."""
        self._operators.setdefault(name, operator)

    def clear(self) -> None:
        """Forget the operators: they are compiled again."""
        self._operators.clear()

    def is_due(self, idle: IdleTime) -> bool:
        """Return True if a tick would change something."""
        return any(operator.is_due(idle) for operator in self._operators.values())

    def run(
        self,
        idle: IdleTime,
        guarded: Callable[[str, Callable[[int], None]], Callable[[int], None]],
        now_ms: int,
    ) -> None:
        """Call the operators; ``guarded`` adds the handling of errors to a named callback."""

        def tick_of(operator: IdleOperator) -> Callable[[int], None]:
            return lambda _: operator.tick(idle)

        for name, operator in reversed(self._operators.items()):
            guarded(f"close_on_idle of {name}", tick_of(operator))(now_ms)
