"""A binary heap that orders equals as Kafka Streams does: Java's ``PriorityQueue``, step by step.

It is not stable: of three equal members the LAST one follows the first. Python's ``heapq`` orders
equals in another way. A heap is a list; its members in order, offered anew, give the same list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def offer(heap: list[T], member: T, time_of: Callable[[T], int]) -> None:
    """Put a member in."""
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
    """Take out the first member of a heap that is not empty."""
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
