"""Placing the boxes of a directed graph in layers, from top to bottom.

The usual steps, each in its simplest form that looks good for some dozens of boxes: a box is one
layer below the lowest of its predecessors; an edge over several layers gets a bend in each of them,
which takes space like a thin box; boxes of a layer are ordered by the mean position of their
adjacent boxes, in sweeps down and up, and the order with the fewest crossings is kept; then every
box moves as near to the middle of its adjacent boxes as its layer's order allows. With a maximum
width, a layer whose boxes are wider together becomes several layers, one below the other.

The graph must have no cycle. The same input gives the same picture, to the last digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import NamedTuple, TypeAlias

Point: TypeAlias = tuple[float, float]

_SWEEPS = 8
_BEND_WIDTH = 10.0


class Box(NamedTuple):
    """A box to be placed; ``at_bottom``: in the last layer, if no edge leaves it."""

    width: float
    height: float
    at_bottom: bool = False


class Edge(NamedTuple):
    """From one box to another; offsets say where it leaves and enters, from their centers."""

    start: str
    end: str
    start_offset: float = 0.0
    end_offset: float = 0.0


@dataclass(frozen=True)
class Layout:
    """Centers of the boxes, and for each edge its bends; all from (0, 0) at the top left."""

    centers: dict[str, Point]
    bends: list[list[Point]]
    width: float
    height: float


class _Link(NamedTuple):
    """A piece of an edge between two adjacent layers.

    Offsets are from the centers, shares are the same in widths of the box.
    """

    above: str
    below: str
    above_offset: float
    below_offset: float
    above_share: float
    below_share: float


def layered(
    boxes: Mapping[str, Box],
    edges: Sequence[Edge],
    *,
    gap_x: float,
    gap_y: float,
    max_width: float | None = None,
) -> Layout:
    """Place the boxes; ``gap_x`` and ``gap_y`` are the least distances between them.

    A box, or bends next to a box, can be wider than ``max_width``; then the result is wider too.
    """
    if not boxes:
        return Layout({}, [[] for _ in edges], 0.0, 0.0)
    layers_of = _layers(boxes, edges)
    if max_width is not None:
        layers_of = _split(layers_of, boxes, gap_x, max_width)
    sizes = dict(boxes)
    chains: list[list[str]] = []
    links: list[_Link] = []
    for number, edge in enumerate(edges):
        between = range(layers_of[edge.start] + 1, layers_of[edge.end])
        chain = [f"\0bend {number} {layer}" for layer in between]
        for name, layer in zip(chain, between, strict=True):
            sizes[name] = Box(_BEND_WIDTH, 0.0)
            layers_of[name] = layer
        chains.append(chain)
        links += _links(edge, chain, sizes)
    rows: list[list[str]] = [[] for _ in range(max(layers_of.values()) + 1)]
    for name in sizes:
        rows[layers_of[name]].append(name)
    rows = _with_few_crossings(rows, links)
    x_of = _horizontal(rows, links, sizes, gap_x, max_width)
    y_of, height = _vertical(rows, sizes, gap_y)
    left = min(x_of[name] - sizes[name].width / 2 for name in sizes)
    right = max(x_of[name] + sizes[name].width / 2 for name in sizes)
    centers = {name: (x_of[name] - left, y_of[layers_of[name]]) for name in sizes}
    return Layout(
        {name: centers[name] for name in boxes},
        [[centers[name] for name in chain] for chain in chains],
        right - left,
        height,
    )


def _layers(boxes: Mapping[str, Box], edges: Sequence[Edge]) -> dict[str, int]:
    """The layer of each box: below all its predecessors."""
    above: dict[str, list[str]] = {name: [] for name in boxes}
    for edge in edges:
        above[edge.end].append(edge.start)
    layers: dict[str, int] = {}

    pending = [*boxes][::-1]
    while pending:
        name = pending[-1]
        unknown = [parent for parent in above[name] if parent not in layers]
        if unknown:
            pending.extend(reversed(unknown))
            continue
        pending.pop()
        layers.setdefault(name, 1 + max((layers[parent] for parent in above[name]), default=-1))
    last = max(layers[name] for name in boxes)
    starts = {edge.start for edge in edges}
    for name, box in boxes.items():
        if box.at_bottom and name not in starts:
            layers[name] = last
    return layers


def _split(
    layers_of: Mapping[str, int], boxes: Mapping[str, Box], gap: float, max_width: float
) -> dict[str, int]:
    """Return layers whose boxes fit into the width; boxes of one layer are not linked."""
    found: dict[str, int] = {}
    layer = 0
    for number in range(max(layers_of.values()) + 1):
        used = 0.0
        for name in (name for name in boxes if layers_of[name] == number):
            wider = boxes[name].width + (used + gap if used else 0.0)
            if used and wider > max_width:
                layer, wider = layer + 1, boxes[name].width
            found[name], used = layer, wider
        layer += 1
    return found


def _links(edge: Edge, chain: Sequence[str], sizes: Mapping[str, Box]) -> list[_Link]:
    links = []
    for above, below in pairwise([edge.start, *chain, edge.end]):
        out = edge.start_offset if above == edge.start else 0.0
        into = edge.end_offset if below == edge.end else 0.0
        shares = out / sizes[above].width, into / sizes[below].width
        links.append(_Link(above, below, out, into, *shares))
    return links


def _with_few_crossings(rows: list[list[str]], links: Sequence[_Link]) -> list[list[str]]:
    up: dict[str, list[tuple[str, float]]] = {}
    down: dict[str, list[tuple[str, float]]] = {}
    for link in links:
        up.setdefault(link.below, []).append((link.above, link.above_share))
        down.setdefault(link.above, []).append((link.below, link.below_share))
    best, fewest = rows, _crossings(rows, links)
    rows = [list(row) for row in rows]
    for sweep in range(_SWEEPS):
        goes_down = sweep % 2 == 0
        order = range(1, len(rows)) if goes_down else range(len(rows) - 2, -1, -1)
        for number in order:
            adjacent = rows[number - 1 if goes_down else number + 1]
            rank = {name: float(at) for at, name in enumerate(adjacent)}
            linked = up if goes_down else down
            own = {name: float(at) for at, name in enumerate(rows[number])}
            rows[number].sort(
                key=lambda name: _mean(
                    [rank[other] + share for other, share in linked.get(name, ())],
                    otherwise=own[name],
                )
            )
        crossings = _crossings(rows, links)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _crossings(rows: Sequence[Sequence[str]], links: Sequence[_Link]) -> int:
    at = {name: (layer, rank) for layer, row in enumerate(rows) for rank, name in enumerate(row)}
    by_layer: dict[int, list[tuple[float, float]]] = {}
    for link in links:
        layer, rank = at[link.above]
        ends = (rank + link.above_share, at[link.below][1] + link.below_share)
        by_layer.setdefault(layer, []).append(ends)
    return sum(
        (a[0] - b[0]) * (a[1] - b[1]) < 0
        for ends in by_layer.values()
        for a, b in combinations(ends, 2)
    )


def _horizontal(
    rows: Sequence[Sequence[str]],
    links: Sequence[_Link],
    sizes: Mapping[str, Box],
    gap: float,
    max_width: float | None,
) -> dict[str, float]:
    """Centers, in each row in order and never closer than the gap."""
    targets_from_above: dict[str, list[tuple[str, float]]] = {}
    targets_from_below: dict[str, list[tuple[str, float]]] = {}
    for link in links:
        shift = link.above_offset - link.below_offset
        targets_from_above.setdefault(link.below, []).append((link.above, shift))
        targets_from_below.setdefault(link.above, []).append((link.below, -shift))
    x_of: dict[str, float] = {}
    for row in rows:
        x_of |= _spread(row, dict.fromkeys(row, 0.0), sizes, gap, max_width)
    for sweep in range(2 * _SWEEPS + 1):
        goes_down = sweep % 2 == 0
        targets = targets_from_above if goes_down else targets_from_below
        for row in rows if goes_down else reversed(rows):
            wanted = {
                name: _mean(
                    [x_of[other] + shift for other, shift in targets.get(name, ())],
                    otherwise=x_of[name],
                )
                for name in row
            }
            x_of |= _spread(row, wanted, sizes, gap, max_width)
    return x_of


def _spread(
    row: Sequence[str],
    wanted: Mapping[str, float],
    sizes: Mapping[str, Box],
    gap: float,
    max_width: float | None,
) -> dict[str, float]:
    """The positions nearest to the wanted ones (least squares) that keep order and distance.

    Less the space that all boxes to the left need, positions may only rise from left to right: so
    adjacent boxes that would fall are united and share the mean of their wanted positions. With a
    maximum width, around 0, those outside of it move to its sides; a wider row is in its middle.
    """
    offsets = [0.0]
    for before, name in pairwise(row):
        offsets.append(offsets[-1] + (sizes[before].width + sizes[name].width) / 2 + gap)
    groups: list[tuple[float, int]] = []
    for name, offset in zip(row, offsets, strict=True):
        total, count = wanted[name] - offset, 1
        while groups and groups[-1][0] / groups[-1][1] >= total / count:
            earlier_total, earlier_count = groups.pop()
            total, count = total + earlier_total, count + earlier_count
        groups.append((total, count))
    means = [total / count for total, count in groups for _ in range(count)]
    if max_width is not None:
        least = (sizes[row[0]].width - max_width) / 2
        most = (max_width - sizes[row[-1]].width) / 2 - offsets[-1]
        if most < least:
            least = most = (least + most) / 2
        means = [min(max(mean, least), most) for mean in means]
    return {name: mean + offset for name, mean, offset in zip(row, means, offsets, strict=True)}


def _vertical(
    rows: Sequence[Sequence[str]], sizes: Mapping[str, Box], gap: float
) -> tuple[list[float], float]:
    """The middle of each row, and the height of all."""
    middles: list[float] = []
    top = 0.0
    for row in rows:
        height = max(sizes[name].height for name in row)
        middles.append(top + height / 2)
        top += height + gap
    return middles, top - gap


def _mean(numbers: Sequence[float], *, otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise
