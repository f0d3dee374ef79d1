"""What a step built, and the types of the records that flow out of it.

The recordings name types at the sources only. Each step derives the types of its result, so that
the DSL is given the serdes a user would declare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from logstate.topology import StreamsBuilder

from .wire import WireType


@dataclass(frozen=True)
class Flow:
    """A stream, a table or a grouping, and the types of its records."""

    node: Any
    key: WireType
    value: WireType
    is_table: bool = False

    def then(self, node: Any, **types: Any) -> Flow:
        """The same flow behind another operator."""
        return replace(self, node=node, **types)


@dataclass
class Flows:
    """The flows built so far, by step name, and the builder that makes them."""

    builder: StreamsBuilder
    named: dict[str, Flow] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Flow:
        if name not in self.named:
            raise ValueError(f"there is no step {name!r} before this one")
        return self.named[name]


Step = dict[str, Any]
#: builds one step; the flow it returns gets the step's name
StepBuilder = Callable[[Step, Flows], "Flow | None"]
