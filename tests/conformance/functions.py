"""The named predicates, mappers, flat functions, joiners and timestamp extractors.

A function is written as its name or as ``{name: argument}``. The recorder ran on 64-bit integers,
so arithmetic wraps as theirs does. :func:`mapper_type` says what type a mapper gives, because the
recordings name types at the sources only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from logstate.contracts.records import Windowed

from .wire import BIGINT, STRING, WireType

Spec: TypeAlias = "str | dict[str, Any]"
KeyValueFunction: TypeAlias = "Callable[[Any, Any], Any]"


def parse(spec: Spec) -> tuple[str, Any]:
    """Name and argument of a function."""
    if isinstance(spec, str):
        return spec, None
    ((name, argument),) = spec.items()
    return name, argument


def text(x: Any) -> str:
    """str(x) of the recordings: decimal or the text itself, ``null`` for null."""
    if x is None:
        return "null"
    if isinstance(x, Windowed):
        return f"[{text(x.key)}@{x.start_ms}/{x.end_ms}]"
    return str(x)


def wrap(n: int) -> int:
    """n as a signed 64-bit integer."""
    return (n + (1 << 63)) % (1 << 64) - (1 << 63)


def predicate(spec: Spec) -> Callable[[Any, Any], bool]:
    """A named predicate of (key, value)."""
    name, n = parse(spec)
    table: dict[str, Callable[[Any, Any], bool]] = {
        "value_gt": lambda k, v: v is not None and v > n,
        "value_lt": lambda k, v: v is not None and v < n,
        "value_mod_eq": lambda k, v: v is not None and v % n[0] == n[1],
        "value_not_null": lambda k, v: v is not None,
        "value_is_null": lambda k, v: v is None,
        "key_not_null": lambda k, v: k is not None,
        "key_eq": lambda k, v: k == n,
        "value_len_gt": lambda k, v: v is not None and len(v) > n,
    }
    return _named(table, name, "predicate")


def mapper(spec: Spec) -> KeyValueFunction:
    """A named function of (key, value) that gives a key or a value."""
    name, n = parse(spec)
    table: dict[str, KeyValueFunction] = {
        "identity": lambda k, v: v,
        "key": lambda k, v: k,
        "add": lambda k, v: None if v is None else wrap(v + n),
        "mul": lambda k, v: None if v is None else wrap(v * n),
        "null_if_gt": lambda k, v: None if v is None or v > n else v,
        "to_string": lambda k, v: None if v is None else text(v),
        "tag": lambda k, v: f"{text(k)}:{text(v)}",
        "value_suffix": lambda k, v: None if v is None else text(v) + n,
        "key_suffix": lambda k, v: None if k is None else text(k) + n,
        "length": lambda k, v: None if v is None else len(v),
        "value_mod": lambda k, v: None if v is None else f"g{v % n}",
        "key_null_if_value_gt": lambda k, v: None if v is not None and v > n else k,
        "field": lambda k, v: _field(v, n),
        "field_int": lambda k, v: _field_int(v, n),
        "key_field": lambda k, v: _field(k, n),
        "window_key": lambda k, v: f"{text(k.key)}@{k.start_ms}",
        "window_inner_key": lambda k, v: k.key,
    }
    return _named(table, name, "mapper")


def mapper_type(spec: Spec, key: WireType, value: WireType) -> WireType:
    """The type that a mapper gives for these types of key and value."""
    name, _ = parse(spec)
    if name in ("key", "key_null_if_value_gt"):
        return key
    if name in ("identity", "null_if_gt"):
        return value
    return BIGINT if name in ("add", "mul", "length", "field_int") else STRING


def key_value_mapper(key: Spec, value: Spec) -> Callable[[Any, Any], tuple[Any, Any]]:
    """The mapper of ``map`` and of a table's ``group_by``."""
    key_of, value_of = mapper(key), mapper(value)
    return lambda k, v: (key_of(k, v), value_of(k, v))


def flat_map(spec: Spec) -> Callable[[Any, Any], Iterable[tuple[Any, Any]]]:
    """A flat function that gives records."""
    name, n = parse(spec)

    def fan(k: Any, v: Any) -> Iterable[tuple[Any, Any]]:
        if v is None:
            return [(k, None)]
        return [(f"{text(k)}-{i}", wrap(v + i)) for i in range(v % n)]

    return _named({"fan": fan}, name, "flat function of records")


def flat_map_values(spec: Spec) -> Callable[[Any], Iterable[Any]]:
    """A flat function that gives values."""
    name, n = parse(spec)
    table: dict[str, Callable[[Any], Iterable[Any]]] = {
        "ladder": lambda v: [] if v is None else [wrap(v + i) for i in range(v % n)],
        "chars": lambda v: [] if v is None else list(v),
    }
    return _named(table, name, "flat function of values")


def flat_type(spec: Spec) -> WireType:
    """The type of the values that a flat function gives."""
    return STRING if parse(spec)[0] == "chars" else BIGINT


def joiner(spec: Spec) -> Callable[..., str]:
    """A named joiner: of (left, right), or of (key, left, right)."""
    name, _ = parse(spec)
    table: dict[str, Callable[..., str]] = {
        "concat": lambda left, right: f"({text(left)},{text(right)})",
        "concat_key": lambda key, left, right: f"{text(key)}:({text(left)},{text(right)})",
    }
    return _named(table, name, "joiner")


def extracted_time(spec: Spec, value: Any, record_ms: int, partition_ms: int) -> int:
    """What a named timestamp extractor gives for a record."""
    name, i = parse(spec)
    instead = {
        "payload_field": -1,
        "payload_field_or_partition_time": partition_ms,
        "payload_field_or_record_time": record_ms,
    }
    found = _field_int(value, i)
    return _named(instead, name, "timestamp extractor") if found is None else found


def _field(x: Any, i: int) -> str | None:
    if x is None:
        return None
    parts = text(x).split("|")
    return (parts[i] or None) if i < len(parts) else None


def _field_int(x: Any, i: int) -> int | None:
    part = _field(x, i)
    return None if part is None else int(part)


def _named(table: dict[str, Any], name: str, kind: str) -> Any:
    if name not in table:
        raise ValueError(f"there is no {kind} named {name!r}; known: {', '.join(table)}")
    return table[name]
