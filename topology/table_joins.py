"""The joins of a table: with a co-partitioned table by key, with any table by foreign key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from logstate.topology import callbacks
from logstate.topology.flow import Flow, K, V
from logstate.topology.graph import Partitioner
from logstate.topology.materialized import Materialized
from logstate.topology.options import TableJoinOptions

if TYPE_CHECKING:
    from logstate.topology.table import KTable

V2 = TypeVar("V2")
R = TypeVar("R")


class TableJoinOperators(Flow[K, V]):
    """Mixed into :class:`logstate.topology.table.KTable`."""

    @overload
    def join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[V, V2], R],
        **options: Unpack[TableJoinOptions],
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[K, V, V2], R],
        **options: Unpack[TableJoinOptions],
    ) -> KTable[K, R]: ...
    def join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        **options: Unpack[TableJoinOptions],
    ) -> KTable[K, Any]:
        """Inner join: a row where both tables have one; either side triggers.

        With ``foreign_key`` (``(value)`` or ``(key, value)`` of this table) rows meet the other
        table's row under that key (KIP-213); needs no co-partitioning, but a ``store`` and a
        ``name``. The result's timestamp is the larger of both rows'; of a foreign-key join that of
        the row that triggered it.
        """
        return self._join("inner", other, joiner, **options)

    @overload
    def left_join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[V, V2 | None], R],
        **options: Unpack[TableJoinOptions],
    ) -> KTable[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[K, V, V2 | None], R],
        **options: Unpack[TableJoinOptions],
    ) -> KTable[K, R]: ...
    def left_join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        **options: Unpack[TableJoinOptions],
    ) -> KTable[K, Any]:
        """Left join: every row of this table; right is None where the other has none."""
        return self._join("left", other, joiner, **options)

    @overload
    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V | None, V2 | None], R],
        *,
        store: str | Materialized | None = None,
        value: Any = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    @overload
    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[K, V | None, V2 | None], R],
        *,
        store: str | Materialized | None = None,
        value: Any = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    def outer_join(
        self,
        other: KTable[K, Any],
        joiner: Callable[..., Any],
        *,
        store: str | Materialized | None = None,
        value: Any = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """Outer join: a row where either table has one."""
        return self._join("outer", other, joiner, store=store, value=value, name=name)

    def _join(
        self,
        kind: Literal["inner", "left", "outer"],
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        *,
        foreign_key: Callable[..., Any] | None = None,
        store: str | Materialized | None = None,
        value: Any = None,
        partitioner: Partitioner | None = None,
        other_partitioner: Partitioner | None = None,
        name: str | None = None,
    ) -> KTable[Any, Any]:
        from logstate.topology import table_table_join as build

        function = callbacks.joiner(joiner)
        self._check_same_builder(other, "join")
        this: Any = self
        if foreign_key is None:
            return build.join_tables(
                this, other, function, kind=kind, store=store, value=value, name=name
            )
        return build.join_by_foreign_key(
            this,
            other,
            function,
            foreign_key=callbacks.mapper(foreign_key, "foreign key function"),
            is_left=kind == "left",
            store=store,
            value=value,
            partitioner=partitioner,
            other_partitioner=other_partitioner,
            name=name,
        )
