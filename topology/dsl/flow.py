"""What streams and tables of the DSL have in common: where they are in the graph, and serdes.

``key`` and ``value`` are None where nobody said how the objects become bytes. That is no error
until they have to: at a topic or a store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from logstate.contracts.errors import TopologyError
from logstate.contracts.serde import Serde
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.serde_arguments import required_serde
from logstate.topology.graph.logical import LogicalNode

if TYPE_CHECKING:
    from logstate.topology.dsl.builder import StreamsBuilder

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, eq=False, repr=False)
class Flow(Generic[K, V]):
    """A stream or table at one point of the graph. Immutable: every operator makes a new one."""

    builder: StreamsBuilder
    name: str
    logical: LogicalNode
    #: physical sources of its sub-topology, whose topics must be co-partitioned in a join
    source_names: frozenset[str]
    key: Serde[Any] | None
    value: Serde[Any] | None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _key_serde(self, spec: Any, use: str) -> Serde[Any]:
        """The key's serde: the given one, else the inherited one, else an error."""
        return required_serde(spec, self.key, f"the key of {use}", "key=")

    def _value_serde(self, spec: Any, use: str) -> Serde[Any]:
        return required_serde(spec, self.value, f"the value of {use}", "value=")

    def _check_same_builder(self, other: Flow[Any, Any], what: str) -> None:
        if other.builder is not self.builder:
            raise TopologyError(
                f"{what}: {self.name!r} and {other.name!r} come from different StreamsBuilders. One"
                " topology is built by one builder.",
                declared_at=declaration_site(),
            )
