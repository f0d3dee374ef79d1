"""TableFlow: what becomes of a table in the graph; users have it as a ``KTable``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Required, Self, TypedDict

from logstate.contracts.serde_types import TypedSerde, Untyped
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_kind
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.naming import required_name
from logstate.topology.declaring.serde_arguments import optional_serde
from logstate.topology.dsl.flow import Flow, K, V
from logstate.topology.dsl.materialized import (
    Materialized,
    agreed_value,
    key_value_spec,
    materialized,
)
from logstate.topology.dsl.suppressed import Suppressed, window_grace_ms, windowed_origins
from logstate.topology.graph.nodes import TableNode
from logstate.topology.operators.aggregates.emit_on_close import clock_name
from logstate.topology.operators.aggregates.fold import FoldNode
from logstate.topology.operators.tables.derived_tables import TableFilterNode
from logstate.topology.operators.tables.suppress import SuppressNode


class DerivedTableOptions(TypedDict, total=False):
    """Options of an operator that derives a table: its store, its name."""

    store: str | Materialized | None
    name: str | None


class UntypedTableOptions(DerivedTableOptions, total=False):
    """Those, and a serde that does not say the type of the values."""

    value: Untyped


class TypedTableOptions(TypedDict, Generic[V], total=False):
    """Those, and a serde that determines the type of the values."""

    value: Required[TypedSerde[V]]
    store: str | Materialized | None
    name: str | None


@dataclass(frozen=True, eq=False, repr=False)
class TableFlow(Flow[K, V]):
    """A table as its joins and aggregations see it."""

    node: TableNode

    def _filtered(
        self,
        predicate: Callable[..., object],
        store: str | Materialized | None,
        name: str | None,
        *,
        keeps: bool,
    ) -> Self:
        return self._below(
            TableFilterNode,
            name,
            "KTABLE-FILTER-",
            store,
            self.value,
            predicate=callbacks.predicate(predicate),
            keeps=keeps,
        )

    def _below(
        self,
        kind: Callable[..., TableNode],
        name: str | None,
        prefix: str,
        store: str | Materialized | None,
        value: Any,
        **options: Any,
    ) -> Self:
        """Return a table whose rows are computed from this one's, with a store if requested."""
        node_name = self.builder.graph.names.named(name, prefix)
        serde = optional_serde(value, None, f"the value of table {node_name!r}")
        spec, chosen = None, materialized(store)
        if chosen is not None:
            use = f"store {chosen.name!r}"
            key = self._key_serde(chosen.key, use)
            of_value = self._value_serde(agreed_value(chosen, serde), use)
            spec = key_value_spec(chosen, key, of_value, self.builder.defaults)
            serde = spec.value
        node = kind(node_name, parent=self.node, store=spec, **options)
        is_versioned = None if spec is None else spec.is_versioned
        logical = self._add(node, output_versioned=is_versioned)
        if serde is None:
            logical.leaves_out.add("value")
        return self._derive(node.name, logical, node=node, value=serde)

    def _suppressed(self, condition: Suppressed, name: str | None) -> Self:
        """The table behind a buffer, in which updates wait."""
        choice = "until_window_closes() or until_time_limit(...)"
        check_kind(condition, Suppressed, "suppress", choice, "It says what to wait for.")
        buffer = required_name(name, "suppress", "its buffer has a changelog topic", 'name="..."')
        wait_ms = condition.limit_ms
        windowed: tuple[FoldNode, ...] = ()
        if wait_ms is None:
            wait_ms = window_grace_ms(self.logical)
            windowed = windowed_origins(self.node)
        use = f"the buffer of suppress {buffer!r}"
        spec = StoreSpec(
            name=f"{buffer}-store",
            kind="suppress_buffer",
            key=self._key_serde(None, use),
            value=self._value_serde(None, use),
            is_logged=condition.logged,
            with_headers=self.builder.defaults.with_headers,
            changelog_config=condition.changelog_config,
            declared_at=declaration_site(),
        )
        node = SuppressNode(
            buffer,
            parent=self.node,
            store=spec,
            until=condition.until,
            wait_ms=wait_ms,
            max_records=condition.max_records,
            max_bytes=condition.max_bytes,
            when_full=condition.when_full,
            idle_ms=condition.close_on_idle_ms,
            windowed=windowed,
            window_clocks=tuple(
                clock_name(one.store.name, one.group_number, one.emit) for one in windowed
            ),
        )
        logical = self._add(node, output_versioned=False)
        logical.refuses_versioned_input = True
        return self._derive(node.name, logical, node=node)
