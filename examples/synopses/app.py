"""What is known of a stream in bounded memory: a window, counts, distinct values and a sample.

    requests (by site) ── four synopses of each site (store: synopses) ── synopses
                      └── the last 20 requests of each site (store: last)

Each synopsis has a size that does not depend on the number of requests, and an error that is known.
"""

from __future__ import annotations

import math
from heapq import heappushpop
from typing import Any

import mmh3

from logstate import (
    Aggregate,
    Aggregates,
    Count,
    Processor,
    Record,
    StreamsBuilder,
    Topology,
    list_store,
)

#: CountMin: the error is at most EPSILON of all requests, with the probability 1 - DELTA
EPSILON, DELTA = 0.02, 0.01
WIDTH, DEPTH = math.ceil(math.e / EPSILON), math.ceil(math.log(1 / DELTA))
#: the standard error of the number of visitors is about 1 / sqrt(SMALLEST - 2)
SMALLEST = 256
SAMPLE = 50
LAST = list_store("last", key=str, value=str, max_size=20)


class CountMin(Aggregate[str, list[list[int]], list[list[int]]]):
    """How often each visitor comes, in a table of counters: never too few."""

    def initial(self) -> list[list[int]]:
        return [[0] * WIDTH for _ in range(DEPTH)]

    def add(self, state: list[list[int]], value: str) -> list[list[int]]:
        for number, row in enumerate(state):
            row[place(value, number)] += 1
        return state


def place(visitor: str, row: int) -> int:
    return mmh3.hash(visitor, row, signed=False) % WIDTH


def frequency(counters: list[list[int]], visitor: str) -> int:
    """Return how often a visitor came, or up to EPSILON of all requests more."""
    return min(row[place(visitor, number)] for number, row in enumerate(counters))


class Smallest(Aggregate[str, list[int], float]):
    """How many different visitors there are, from the smallest hashes (KMV)."""

    def initial(self) -> list[int]:
        return []

    def add(self, state: list[int], value: str) -> list[int]:
        found = mmh3.hash64(value, 7, signed=False)[0]
        if found not in state and (len(state) < SMALLEST or found < state[-1]):
            return sorted([*state, found])[:SMALLEST]
        return state

    def result(self, state: list[int]) -> float:
        if len(state) < SMALLEST:
            return float(len(state))
        return (SMALLEST - 1) / (state[-1] / 2**64)


class Sample(Aggregate[str, list[tuple[int, str]], tuple[str, ...]]):
    """Different visitors, drawn evenly: those with the greatest hashes of another seed."""

    def initial(self) -> list[tuple[int, str]]:
        return []

    def add(self, state: list[tuple[int, str]], value: str) -> list[tuple[int, str]]:
        found = (mmh3.hash64(value, 11, signed=False)[0] >> 1, value)
        if found in state:
            return state
        if len(state) < SAMPLE:
            return sorted([*state, found])
        heappushpop(state, found)
        return sorted(state)

    def result(self, state: list[tuple[int, str]]) -> tuple[str, ...]:
        return tuple(visitor for _, visitor in state)


class Synopsis(Aggregates[str]):
    """What is known of the requests of a site."""

    requests = Count()
    counters = CountMin()
    visitors = Smallest()
    sample = Sample()


class KeepLast(Processor[str, str, Any, Any]):
    """Keeps the last requests of each site."""

    def process(self, record: Record[str, str]) -> None:
        self.context.store(LAST).append(record.key, record.value)


def topology(prefix: str = "") -> Topology:
    builder = StreamsBuilder()
    requests = builder.stream(f"{prefix}requests", key=str, value=str)
    synopses = requests.group_by_key().agg(Synopsis, store="synopses", emit="commit")
    synopses.to_stream().to(f"{prefix}synopses")
    requests.process(KeepLast, stores=LAST, name="keep-last")
    return builder.build()


if __name__ == "__main__":
    from examples.playground import play

    play(topology(), application_id="synopses")
