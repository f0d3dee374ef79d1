"""Keyword options that several joins of the DSL share, as types.

They exist so that overloads, which tell callbacks apart by their number of parameters, stay short.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypedDict

from logstate.topology.dsl.materialized import Materialized
from logstate.topology.graph.nodes import Partitioner


class StreamJoinOptions(TypedDict, total=False):
    """Options of a stream-stream join besides its windows: store base name, serdes, name."""

    store: str | Materialized | None
    key: Any
    value: Any
    other_value: Any
    name: str | None


class StreamTableJoinOptions(TypedDict, total=False):
    """Options of a stream-table join: grace, the stream's serdes, name."""

    grace: timedelta | None
    key: Any
    value: Any
    name: str | None


class TableJoinOptions(TypedDict, total=False):
    """Options of a table-table join: foreign key, store, the result's serde, name."""

    foreign_key: Callable[..., Any] | None
    store: str | Materialized | None
    value: Any
    partitioner: Partitioner | None
    other_partitioner: Partitioner | None
    name: str | None
