"""Models of lists, maps, sets and counters."""

from __future__ import annotations

from typing import Any

from tests.unit.changelog.store_kinds import KEYS, RETENTION_MS, Input
from tests.unit.changelog.stores.model import Model, Play, entries_of, get_shown, gets_of


def _of_key(model: Model, key: str) -> list[tuple[Any, Any]]:
    """The elements of a key with their values, in order."""
    return sorted((element, value) for (k, element), value in model.rows.items() if k == key)


def _append(model: Model, key: str, value: int) -> None:
    held = _of_key(model, key)
    model.set((key, held[-1][0] + 1 if held else 0), value)
    _bound(model, key)


def _bound(model: Model, key: str) -> None:
    surplus = len(held := _of_key(model, key)) - (model.spec.capacity or len(held))
    for element, _ in held[: max(0, surplus)]:
        model.set((key, element), None)


def _list(model: Model, one: Input) -> None:
    held = _of_key(model, one.key)
    if one.value is not None:
        if one.choice == 0 and held:
            model.set((one.key, held[one.time % len(held)][0]), one.value)
            return
        for _ in range(one.choice or 1):
            _append(model, one.key, one.value)
        return
    gone = held if one.choice == 1 else held[-1:] if one.choice == 2 else held[:1]
    for element, _ in gone:
        model.set((one.key, element), None)


def _map(model: Model, one: Input) -> None:
    map_key = one.time % 5 - 2
    if one.value is None and one.choice == 1:
        for element, _ in _of_key(model, one.key):
            model.set((one.key, element), None)
        return
    for element in (map_key, map_key + 1) if one.choice == 2 else (map_key,):
        model.set((one.key, element), one.value)
        _bound(model, one.key)


def _set(model: Model, one: Input) -> None:
    if one.value is not None:
        model.set((one.key, one.value), one.value)
        _bound(model, one.key)
        return
    for element, _ in _of_key(model, one.key):
        if one.choice == 1 or element == one.time % 5:
            model.set((one.key, element), None)


def _counter(model: Model, one: Input) -> None:
    held = model.rows.get(one.key, 0)
    model.set(one.key, None if one.value is None else held + one.value)


def _elements(model: Model) -> Any:
    of_keys = [_of_key(model, key) for key in KEYS]
    numbers = [len(held) for held in of_keys]
    inside = [pair for pair in entries_of(model) if "a" <= pair[0][0] <= "aa"]
    return of_keys, numbers, entries_of(model), inside


def _elements_shown(store: Any, model: Model) -> Any:
    of_keys = [list(store.items(key)) for key in KEYS]
    for key, held in zip(KEYS, of_keys, strict=True):
        assert list(store.items(key, reverse=True)) == held[::-1]
        for element, _ in held:
            span = element, element + 1
            assert list(store.items(key, *span)) == [row for row in held if row[0] in span]
    assert store.approximate_num_entries() == len(model.rows)
    rows = list(store.range("a", "aa"))
    return of_keys, [store.size(key) for key in KEYS], list(store.all()), rows


def _list_shown(store: Any, model: Model) -> Any:
    for key in KEYS:
        values = [value for _, value in _of_key(model, key)]
        assert list(store.values(key)) == values
        for index in range(-4, 4):
            is_there = -len(values) <= index < len(values)
            assert store.get(key, index) == (values[index] if is_there else None)
    return _elements_shown(store, model)


def _map_shown(store: Any, model: Model) -> Any:
    for key in KEYS:
        for map_key in range(-3, 4):
            assert store.get(key, map_key) == model.rows.get((key, map_key))
    return _elements_shown(store, model)


def _sets(model: Model) -> Any:
    return [[value for value, _ in _of_key(model, key)] for key in KEYS], [*sorted(model.rows)]


def _sets_shown(store: Any, model: Model) -> Any:
    for key in KEYS:
        for value in range(5):
            assert store.contains(key, value) == ((key, value) in model.rows)
        assert store.size(key) == len(_of_key(model, key))
        assert list(store.values(key, 1, 2)) == [v for v, _ in _of_key(model, key) if 1 <= v <= 2]
    return [list(store.values(key)) for key in KEYS], list(store.all())


class _Writes(Model):
    """A model of the elements that are live, which notes what is written."""

    def __init__(self, model: Model) -> None:
        held = model.rows.items()
        live = {at: row for at, (row, time) in held if time + RETENTION_MS > model.clock}
        super().__init__(model.spec, live)
        self.written: dict[Any, Any] = {}

    def set(self, place: Any, value: Any) -> None:
        super().set(place, value)
        self.written[place] = value


def _expiring(play: Play) -> Play:
    """The same with a TTL: rows are values with their times."""

    def process(model: Model, one: Input) -> None:
        model.see(one.time)
        play.process(writes := _Writes(model), one)
        for place, value in writes.written.items():
            if value is None or one.time + RETENTION_MS > model.clock:
                model.set(place, None if value is None else (value, one.time))

    return Play(
        process,
        lambda model: play.expected(_Writes(model)),
        lambda store, model: play.shown(store, _Writes(model)),
    )


ELEMENT_PLAYS: dict[str, Play] = {
    "list": Play(_list, _elements, _list_shown),
    "map": Play(_map, _elements, _map_shown),
    "set": Play(_set, _sets, _sets_shown),
    "counter": Play(_counter, gets_of, get_shown),
}
EXPIRING_PLAYS = {kind: _expiring(ELEMENT_PLAYS[kind]) for kind in ("map", "set")}
