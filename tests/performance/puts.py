"""Instructions of a put: with a TTL, with an index, or of an append, compared with a plain put.

    python -m tests.performance.puts --keys 500 --ttl 3600000

A task puts rows of random keys, every key once before, and a row per millisecond of event time.
Each 3,000 puts it commits, deletes what has expired and takes the rows over, in memory. With a
short TTL entries of the index are due while their rows are refreshed. ``list`` compares an append
with the put of a key that is new, as each appended element is; ``index`` a put that changes the
indexed value of a struct with a put without an index, and ``index-kept`` one that does not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import msgspec

from logstate import (
    Processor,
    Record,
    StreamsBuilder,
    counter_store,
    key_value_store,
    list_store,
    timestamped_key_value_store,
)
from logstate.contracts.stores import ValueAndTimestamp
from tests.performance.instructions import instructions, task_of

_COMMIT = 3_000
_FEW, _MANY = 2 * _COMMIT, 6 * _COMMIT
#: store -> the store it is compared with
COMPARED = {
    "key-value-ttl": "key-value",
    "table-ttl": "table",
    "counter-ttl": "counter",
    "list": "new-keys",
    "index": "struct",
    "index-kept": "struct",
}


class _Order(msgspec.Struct, frozen=True):
    city: str
    amount: int


class _Keep(Processor[str, str, str, str]):
    """Has the store; the puts come from outside."""

    def process(self, record: Record[str, str]) -> None:
        """No record arrives."""


def _declared(store: str, ttl_ms: int) -> Any:
    ttl = timedelta(milliseconds=ttl_ms) if store.endswith("-ttl") else None
    indexes = {"city": _city_of} if store.startswith("index") else None
    kind = store.removesuffix("-ttl")
    if kind in ("key-value", "new-keys"):
        return key_value_store("rows", str, str, ttl=ttl)
    if kind == "table":
        return timestamped_key_value_store("rows", str, str, ttl=ttl)
    if kind == "counter":
        return counter_store("rows", str, ttl=ttl)
    if kind == "list":
        return list_store("rows", str, str)
    return key_value_store("rows", str, _Order, indexes=indexes)


def _city_of(order: _Order) -> str:
    return order.city


def _put_of(name: str, store: Any) -> Callable[[str, int], object]:
    """Return a put of a key at a time."""
    kind = name.removesuffix("-ttl")
    if kind in ("key-value", "new-keys"):
        return lambda key, _: store.put(key, key)
    if kind == "table":
        return lambda key, time: store.put(key, ValueAndTimestamp(key, time, None))
    if kind == "counter":
        return lambda key, _: store.add(key)
    if kind == "list":
        return lambda key, _: store.append(key, key)
    cities = 1 if kind == "index-kept" else 100
    return lambda key, time: store.put(key, _Order(f"city-{time % cities:02}", time))


def work(name: str, ttl_ms: int, keys: int, puts: int) -> None:
    """What is counted: ``puts`` puts of a task's store, and all that comes before them."""
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(
        _Keep, stores=(_declared(name, ttl_ms),), key=str, value=str
    )
    task = task_of(builder.build(), "puts", ("in",))
    put = _put_of(name, task.state.stores["rows"])
    random, names = Random(1), [f"key-{number:06}" for number in range(keys)]
    order = (names + [names[random.randrange(keys)] for _ in range(_MANY)])[: keys + puts]
    if name == "new-keys":
        order = [f"key-{number:06}" for number in range(keys + puts)]
    for time, key in enumerate(order):
        task.timestamp = task.stream_time = time
        put(key, time)
        if (time - keys) % _COMMIT == 0:
            task.committed(task.freeze(), {})
            task.state.apply()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.performance.puts")
    every = sorted({*COMPARED, *COMPARED.values()})
    parser.add_argument("stores", nargs="*", choices=[*every, []])
    parser.add_argument("--ttl", type=int, default=3_600_000, metavar="MS")
    parser.add_argument("--keys", type=int, default=500)
    parser.add_argument("--inside", type=int, metavar="PUTS", help="do the work, count nothing")
    a = parser.parse_args()
    if a.inside is not None:
        work(a.stores[0], a.ttl, a.keys, a.inside)
        return
    for name in a.stores or COMPARED:
        plain = COMPARED.get(name, name)
        given = ["--keys", str(a.keys), "--ttl", str(a.ttl)]
        base, measured = (
            instructions("tests.performance.puts", one, *given, few=_FEW, many=_MANY)
            for one in (plain, name)
        )
        ratio = f"{measured / base:.2f}"
        print(f"{name}: {measured:,.0f}, {plain}: {base:,.0f} per put: {ratio}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
