"""GlobalKTable: a whole topic as a table in every instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from logstate.topology.builder import StreamsBuilder

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, eq=False)
class GlobalKTable(Generic[K, V]):
    """Read by joins and by processors under ``store_name``.

    Every instance reads all partitions and is complete before it starts processing. There is no
    changelog topic: the source topic is the log. It is not synchronised in time with streams.
    """

    builder: StreamsBuilder
    name: str
    store_name: str
