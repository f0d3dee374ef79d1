"""GlobalKTable: a whole topic as a table in every instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from logstate.topology.dsl.flow import InternalStreamsBuilder, K, V


@dataclass(frozen=True, eq=False)
class GlobalKTable(Generic[K, V]):
    """A whole topic as a table in every instance; read by joins, and by processors under
    ``store_name``.

    >>> from logstate import StreamsBuilder
    >>> StreamsBuilder().global_table("cities", value=str, store="cities").store_name
    'cities'

    Semantics: every instance reads all partitions, and has read them before its tasks start. There
    is no changelog: the topic is the log. It is not synchronized in time with streams, and has no
    operators: it can be looked up, not aggregated.

    Source: Kafka Streams' ``GlobalKTable`` (KIP-99).
    """

    builder: InternalStreamsBuilder
    name: str
    store_name: str
