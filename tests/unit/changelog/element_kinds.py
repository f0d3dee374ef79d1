"""Lists, maps, sets and counters as crash tests see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from logstate import serdes
from tests.unit.changelog.kind_under_test import (
    KEYS,
    NUMBER,
    RETENTION_MS,
    Input,
    KindUnderTest,
    entries_of,
    spec_of,
    without_index_times,
)
from tests.unit.changelog.store_bench import BenchContext


def _change_list(store: Any, one: Input, context: BenchContext) -> None:
    if one.value is not None:
        if one.choice == 0 and store.size(one.key):
            store.set(one.key, one.time % store.size(one.key), one.value)
        else:
            store.extend(one.key, [one.value] * (one.choice or 1))
    elif one.choice == 1:
        store.clear(one.key)
    elif one.choice == 2:
        store.pop(one.key)
    else:
        store.pop_first(one.key)


def _change_map(store: Any, one: Input, context: BenchContext) -> None:
    map_key = one.time % 5 - 2
    if one.value is None and one.choice == 1:
        store.clear(one.key)
    elif one.choice == 2:
        store.put_all(one.key, {map_key: one.value, map_key + 1: one.value})
    else:
        store.put(one.key, map_key, one.value)


def _change_set(store: Any, one: Input, context: BenchContext) -> None:
    if one.value is not None:
        store.add(one.key, one.value)
    elif one.choice == 1:
        store.clear(one.key)
    else:
        store.discard(one.key, one.time % 5)


def _add(store: Any, one: Input, context: BenchContext) -> None:
    if one.value is None:
        store.delete(one.key)
    else:
        store.add(one.key, one.value)


def _process_at(
    process: Callable[[Any, Input, BenchContext], None],
    store: Any,
    one: Input,
    context: BenchContext,
) -> None:
    if isinstance(context, BenchContext):  # a task has seen the time of the record
        context.see(one.time)
    process(store, one, context)


def _elements(store: Any, clock: int) -> Any:
    return (
        [store.size(key) for key in KEYS],
        [list(store.items(key)) for key in KEYS],
        list(store.range("a", "aa")),
        list(store.all()),
    )


def _list(store: Any, clock: int) -> Any:
    indexes = [[store.get(key, index) for key in KEYS] for index in (-2, -1, 0, 1)]
    return indexes, list(store.values("a", reverse=True)), _elements(store, clock)


def _map(store: Any, clock: int) -> Any:
    found = [store.get(key, map_key) for key in KEYS for map_key in range(-2, 4)]
    return found, list(store.items("a", -1, 1, reverse=True)), _elements(store, clock)


def _set(store: Any, clock: int) -> Any:
    found = [store.contains(key, value) for key in KEYS for value in range(5)]
    values = [list(store.values(key, 1)) for key in KEYS]
    return found, values, [store.size(key) for key in KEYS], list(store.all())


def _of_elements() -> Iterator[KindUnderTest]:
    numbers: Any = serdes.ordered(int)
    changes = ((_change_list, _list), (_change_map, _map), (_change_set, _set))
    for name, (process, answers) in zip(("list", "map", "set"), changes, strict=True):
        value = numbers if name == "set" else NUMBER
        spec = spec_of(name, value=value, element=numbers)
        kind = KindUnderTest(name, spec, process, answers)
        yield kind
        yield replace(kind, name=f"bounded {name}", spec=replace(spec, capacity=2))
        yield replace(kind, name=f"{name} in memory", spec=replace(spec, in_memory=True))
        if name != "list":
            yield replace(
                kind,
                name=f"{name} with a TTL",
                spec=replace(spec, ttl_ms=RETENTION_MS),
                process=partial(_process_at, process),
                rows=without_index_times,
            )
    yield KindUnderTest("counter", spec_of("counter"), _add, entries_of)


ELEMENT_KINDS = tuple(_of_elements())
