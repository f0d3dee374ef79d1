"""Stores that processors use: declared here, added to a builder or given to an operator."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from logstate.serdes import serde_of
from logstate.stores import StoreKind, StoreSpec
from logstate.topology.declared import declaration_site
from logstate.topology.naming import check_name
from logstate.topology.windows import to_ms


def key_value_store(
    name: str, key: Any, value: Any, *, in_memory: bool = False, logged: bool = True
) -> StoreSpec:
    """A plain key-value store for processors; its changelog has the record's timestamp."""
    return _processor_store(name, "key_value", key, value, in_memory=in_memory, is_logged=logged)


def timestamped_key_value_store(
    name: str,
    key: Any,
    value: Any,
    *,
    in_memory: bool = False,
    logged: bool = True,
    headers: bool = False,
) -> StoreSpec:
    """A key-value store of ``ValueAndTimestamp``; ``headers`` keeps record headers (KIP-1271)."""
    return _processor_store(
        name, "timestamped_key_value", key, value,
        in_memory=in_memory, is_logged=logged, with_headers=headers,
    )  # fmt: skip


def window_store(
    name: str,
    key: Any,
    value: Any,
    *,
    size: timedelta,
    retention: timedelta,
    segment_interval: timedelta | None = None,
    retain_duplicates: bool = False,
    in_memory: bool = False,
    logged: bool = True,
    timestamped: bool = False,
) -> StoreSpec:
    """A store of values per key and window start."""
    return _processor_store(
        name, "timestamped_window" if timestamped else "window", key, value,
        window_size_ms=to_ms(size, "size"),
        retention_ms=to_ms(retention, "retention"),
        segment_interval_ms=_optional_ms(segment_interval),
        retain_duplicates=retain_duplicates, in_memory=in_memory, is_logged=logged,
    )  # fmt: skip


def session_store(
    name: str,
    key: Any,
    value: Any,
    *,
    retention: timedelta,
    segment_interval: timedelta | None = None,
    in_memory: bool = False,
    logged: bool = True,
) -> StoreSpec:
    """A store of values per key and session (start, end)."""
    return _processor_store(
        name, "session", key, value,
        retention_ms=to_ms(retention, "retention"),
        segment_interval_ms=_optional_ms(segment_interval),
        in_memory=in_memory, is_logged=logged,
    )  # fmt: skip


def versioned_store(
    name: str,
    key: Any,
    value: Any,
    *,
    history: timedelta,
    segment_interval: timedelta | None = None,
    logged: bool = True,
) -> StoreSpec:
    """A store of versions (KIP-889), readable as of a time up to ``history`` back."""
    return _processor_store(
        name, "versioned", key, value,
        history_ms=to_ms(history, "history"),
        segment_interval_ms=_optional_ms(segment_interval),
        is_logged=logged,
    )  # fmt: skip


def _optional_ms(duration: timedelta | None) -> int | None:
    return None if duration is None else to_ms(duration, "segment_interval")


def _processor_store(name: str, kind: StoreKind, key: Any, value: Any, **options: Any) -> StoreSpec:
    check_name(name, "a store")
    return StoreSpec(
        name=name,
        kind=kind,
        key=serde_of(key, what=f"the key of store {name!r}"),
        value=serde_of(value, what=f"the value of store {name!r}"),
        declared_at=declaration_site(),
        **options,
    )
