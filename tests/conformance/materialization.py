"""The stores of the steps: ``store`` and its options, and the stores of ``add_store``."""

from __future__ import annotations

from typing import Any

from logstate.contracts.stores import StoreSpec
from logstate.topology import (
    Materialized,
    key_value_store,
    session_store,
    timestamped_key_value_store,
    versioned_store,
    window_store,
)

from .settings import milliseconds
from .wire import WireType


def materialized(step: dict[str, Any]) -> Materialized | None:
    """The store of a DSL step, or None where the step names none."""
    if step.get("store") is None:
        return None
    impl = step.get("store_impl")
    return Materialized(
        step["store"],
        in_memory=None if impl is None else impl == "in_memory",
        logged=step.get("logging", True),
        capacity=step.get("capacity"),
        retention=_duration(step, "retention_ms"),
        history=_duration(step, "versioned_history_ms"),
        segment_interval=_duration(step, "versioned_segment_ms"),
    )


def added_store(step: dict[str, Any]) -> StoreSpec:
    """The store of an ``add_store`` or ``add_global_store`` step."""
    name, kind = step["name"], step["type"]
    key, value = WireType(step["key"]).serde, WireType(step["value"]).serde
    logged = step.get("logging", True)
    in_memory = step.get("impl") == "in_memory"
    if kind == "key_value":
        return key_value_store(name, key, value, in_memory=in_memory, logged=logged)
    if kind == "timestamped_key_value":
        return timestamped_key_value_store(name, key, value, in_memory=in_memory, logged=logged)
    if kind == "window":
        return window_store(
            name,
            key,
            value,
            size=milliseconds(step["window_size_ms"]),
            retention=milliseconds(step["retention_ms"]),
            retain_duplicates=step.get("retain_duplicates", False),
            in_memory=in_memory,
            logged=logged,
        )
    if kind == "session":
        retention = milliseconds(step["retention_ms"])
        return session_store(
            name, key, value, retention=retention, in_memory=in_memory, logged=logged
        )
    if kind == "versioned":
        return versioned_store(
            name,
            key,
            value,
            history=milliseconds(step["history_ms"]),
            segment_interval=_duration(step, "segment_ms"),
            logged=logged,
        )
    raise ValueError(f"there is no store type {kind!r}")


def _duration(step: dict[str, Any], member: str) -> Any:
    return milliseconds(step[member]) if step.get(member) is not None else None
