"""A tree of JSON, changed at one place at a time."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from typing import Any


def mutations(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every way to change one leaf or to lose one element, as (path, changed tree)."""
    if isinstance(tree, dict):
        for key in tree:
            without = {name: value for name, value in tree.items() if name != key}
            yield f"{path}.{key} lost", without
            for where, changed in mutations(tree[key], f"{path}.{key}"):
                yield where, {**tree, key: changed}
    elif isinstance(tree, list):
        for index in range(len(tree)):
            yield f"{path}[{index}] lost", tree[:index] + tree[index + 1 :]
            for where, changed in mutations(tree[index], f"{path}[{index}]"):
                yield where, [*tree[:index], changed, *tree[index + 1 :]]
    else:
        yield path, _other(tree)


def one_of_each_kind(tree: Any, chance: random.Random) -> Iterator[tuple[str, Any]]:
    """One mutation for each path that differs in more than places in lists."""
    kinds: dict[str, list[tuple[str, Any]]] = {}
    for where, changed in mutations(tree):
        kinds.setdefault(re.sub(r"\[\d+\]", "[]", where), []).append((where, changed))
    for found in kinds.values():
        yield chance.choice(found)


def _other(leaf: Any) -> Any:
    if leaf is None:
        return "x"
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, int):
        return leaf + 1
    return copy.copy(leaf) + "x"
