"""A binary heap that orders equal members as Java's ``PriorityQueue`` does, which Kafka Streams
uses.

It is not stable: of three equal members the LAST one follows the first. Python's ``heapq`` orders
equal members differently. A heap is a list; offering its members in order gives the same list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def offer(heap: list[T], member: T, time_of: Callable[[T], int]) -> None:
    """Add a member."""
    time = time_of(member)
    heap.append(member)
    at = len(heap) - 1
    while at > 0:
        above = (at - 1) >> 1
        if time >= time_of(heap[above]):
            break
        heap[at] = heap[above]
        at = above
    heap[at] = member


def poll(heap: list[T], time_of: Callable[[T], int]) -> T:
    """Remove and return the first member of a non-empty heap."""
    first, last = heap[0], heap.pop()
    if heap:
        _sift_down(heap, last, time_of)
    return first


def _sift_down(heap: list[T], member: T, time_of: Callable[[T], int]) -> None:
    time = time_of(member)
    size, at = len(heap), 0
    while at < size >> 1:
        below = 2 * at + 1
        right = below + 1
        if right < size and time_of(heap[below]) > time_of(heap[right]):
            below = right
        if time <= time_of(heap[below]):
            break
        heap[at] = heap[below]
        at = below
    heap[at] = member
