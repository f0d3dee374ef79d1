"""The iteration order of Java's hash sets and the insertion order of its sorted sets.

Kafka Streams' `describe()` prints some lists in the order of a HashSet and sorts others by a key
that still changes while it inserts. To print the same text, both are reproduced: hash order exactly
(String.hashCode, table sizes, buckets), sorted insertion as the tree would do it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


def string_hash(text: str) -> int:
    """``String.hashCode()`` spread as ``HashMap`` does, unsigned."""
    h = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        h = (h * 31 + unit) & 0xFFFFFFFF
    return h ^ (h >> 16)


def hash_order(names: Iterable[str], *, copied: bool = False) -> list[str]:
    """Names as a HashSet (or the keys of a HashMap) gives them.

    ``copied``: a set made by copying a collection, which is sized for it at once.
    """
    names = list(dict.fromkeys(names))
    table = 16
    if copied:
        needed = max(int(len(names) / 0.75) + 1, 16)
        while table < needed:
            table *= 2
    while len(names) > table * 0.75:
        table *= 2
    # Within a bucket, insertion order; splitting buckets on growth keeps it.
    return sorted(names, key=lambda name: string_hash(name) & (table - 1))


class SortedSet(Generic[T]):
    """A red-black tree's view on elements whose keys change after they were inserted.

    A new element is compared with those on its way down only, each with the key it has by then.
    """

    def __init__(self, key: Callable[[T], tuple[int, str]]) -> None:
        self._key = key
        self._root: _Leaf[T] | None = None

    def add(self, element: T) -> None:
        """Insert as java.util.TreeMap does, rebalancing included."""
        if self._root is None:
            self._root = _Leaf(element, None)
            self._root.is_red = False
            return
        key = self._key(element)
        at: _Leaf[T] | None = self._root
        parent = self._root
        goes_left = False
        while at is not None:
            parent = at
            there = self._key(at.element)
            if key == there:
                return
            goes_left = key < there
            at = at.left if goes_left else at.right
        leaf = _Leaf(element, parent)
        if goes_left:
            parent.left = leaf
        else:
            parent.right = leaf
        self._rebalance(leaf)

    def in_order(self) -> list[T]:
        """The elements, smallest side first."""
        found: list[T] = []
        pending: list[_Leaf[T]] = []
        at = self._root
        while pending or at is not None:
            while at is not None:
                pending.append(at)
                at = at.left
            leaf = pending.pop()
            found.append(leaf.element)
            at = leaf.right
        return found

    def _rebalance(self, leaf: _Leaf[T]) -> None:
        while leaf.parent is not None and leaf.parent.is_red:
            parent = leaf.parent
            grand = parent.parent
            assert grand is not None
            is_left = parent is grand.left
            uncle = grand.right if is_left else grand.left
            if uncle is not None and uncle.is_red:
                parent.is_red = uncle.is_red = False
                grand.is_red = True
                leaf = grand
                continue
            if leaf is (parent.right if is_left else parent.left):
                leaf = parent
                self._rotate(leaf, to_left=is_left)
                assert leaf.parent is not None
                parent = leaf.parent
            parent.is_red = False
            grand.is_red = True
            self._rotate(grand, to_left=not is_left)
        assert self._root is not None
        self._root.is_red = False

    def _rotate(self, pivot: _Leaf[T], *, to_left: bool) -> None:
        up = pivot.right if to_left else pivot.left
        assert up is not None
        inner = up.left if to_left else up.right
        if to_left:
            pivot.right, up.left = inner, pivot
        else:
            pivot.left, up.right = inner, pivot
        if inner is not None:
            inner.parent = pivot
        up.parent = pivot.parent
        if pivot.parent is None:
            self._root = up
        elif pivot.parent.left is pivot:
            pivot.parent.left = up
        else:
            pivot.parent.right = up
        pivot.parent = up


class _Leaf(Generic[T]):
    """A place in the tree."""

    __slots__ = ("element", "is_red", "left", "parent", "right")

    def __init__(self, element: T, parent: _Leaf[T] | None) -> None:
        self.element = element
        self.parent = parent
        self.left: _Leaf[T] | None = None
        self.right: _Leaf[T] | None = None
        self.is_red = True
