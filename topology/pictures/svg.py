"""A topology as a self-contained SVG picture.

Data flow downwards: topics (rounded; internal ones dashed) into sub-topologies (frames, one task
runs each) and out of them again. An operator's stores are written below its name. If a topic
leads back up, as in a foreign-key join, the line goes around on the right.

Two levels of one layout (`layered_layout`): the operators inside each frame, then the frames among
the topics. For a narrow screen, boxes that do not fit next to each other are placed below each
other, and long names are abbreviated in the middle; an element's title has the name in full.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

from logstate.topology.graph.description import Description, NodeDescription
from logstate.topology.pictures.layered_layout import Box, Edge, Layout, Point, layered
from logstate.topology.pictures.picture import (
    Part,
    lines_of,
    nodes_of,
    parts_of,
    title_of,
    topic_written,
    topics_of,
)

_FONT = "12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
_CHARACTER = 7.25
_LINE = 17.0
_PADDING = 16.0
_TITLE = 22.0
_GAP = 24.0
#: between boxes of a picture with a maximum width
_SMALL_GAP = 12.0
_STYLE = """
    text { font: FONT; fill: #1c2733; }
    .title { fill: #5b6875; paint-order: stroke; stroke: #f6f8fa; stroke-width: 5px; }
    .store { fill: #1d6b3c; }
    .frame { fill: #f6f8fa; stroke: #c3ccd5; }
    .operator { fill: #ffffff; stroke: #4a78c2; }
    .end { fill: #e8f0fc; stroke: #4a78c2; }
    .topic { fill: #fff4d9; stroke: #b98412; }
    .internal { stroke-dasharray: 4 3; }
    .flow { fill: none; stroke: #66727e; stroke-width: 1.2; marker-end: url(#arrow); }
    .cylinder { fill: #dff3e6; stroke: #1d6b3c; }
""".replace("FONT", _FONT)
_ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
    ' markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#66727e"/></marker></defs>'
)


class _Size(NamedTuple):
    """The space for boxes that are next to each other, and for a text in one of them."""

    gap: float = _GAP
    #: of all frames and topics; None: not limited
    width: float | None = None

    @property
    def of_frame(self) -> float | None:
        """The width for operators in a frame."""
        return None if self.width is None else self.width - 2 * _PADDING

    def fitting(self, text: str) -> str:
        """Return a text that fits into a box, without its middle if it is too long.

        >>> _Size(width=200.0).fitting("KSTREAM-AGGREGATE-0000000003")
        'KSTREAM-A…00000003'
        """
        if self.of_frame is None:
            return text
        most = max(5, int((self.of_frame - 2 * _PADDING) / _CHARACTER))
        kept = (most - 1) // 2
        return text if len(text) <= most else f"{text[: most - 1 - kept]}…{text[-kept:]}"


class _Frame(NamedTuple):
    """A part with its operators placed; ``at`` is the frame's top left corner in the picture."""

    part: Part
    size: _Size
    layout: Layout
    edges: list[Edge]
    width: float
    height: float

    def inside(self, name: str, at: Point) -> Point:
        """Where an operator's center is in the picture."""
        return self.place(self.layout.centers[name], at)

    def place(self, point: Point, at: Point) -> Point:
        """A point of the inner layout in the picture."""
        left = (self.width - self.layout.width) / 2
        return at[0] + left + point[0], at[1] + _TITLE + _PADDING + point[1]


def svg_of(
    description: Description, internal_topics: Collection[str], *, max_width: int | None = None
) -> str:
    """The picture; ``internal_topics`` are drawn as such. ``max_width``: in units of its fonts."""
    size = _Size() if max_width is None else _Size(_SMALL_GAP, max_width - 2 * _PADDING)
    parts = parts_of(description)
    frames = {f"part {part.id}": _frame(part, size) for part in parts}
    topics = {f"topic {topic}": topic for topic in topics_of(parts)}
    boxes = {name: Box(frame.width, frame.height) for name, frame in frames.items()}
    boxes |= {
        name: Box(_text_width(size.fitting(topic)) + _GAP, 28.0) for name, topic in topics.items()
    }
    flows = _flows(frames)
    back = _leading_back([(flow.edge.start, flow.edge.end) for flow in flows], list(boxes))
    forward = [flow for number, flow in enumerate(flows) if number not in back]
    edges = [flow.edge for flow in forward]
    layout = layered(boxes, edges, gap_x=size.gap, gap_y=2 * _GAP, max_width=size.width)
    corners = {
        name: (
            layout.centers[name][0] - frame.width / 2,
            layout.centers[name][1] - frame.height / 2,
        )
        for name, frame in frames.items()
    }
    shapes = [
        *(_frame_shape(frame, corners[name]) for name, frame in frames.items()),
        *(
            _curve(_forward_points(flow, frames, corners, layout, bends))
            for flow, bends in zip(forward, layout.bends, strict=True)
        ),
    ]
    channel = layout.width
    for number in sorted(back):
        channel += _PADDING
        points = _points_around(flows[number], frames, corners, layout, boxes, channel)
        shapes.append(_path(points))
    for name, frame in frames.items():
        shapes += [_title_shape(frame, corners[name]), *_operator_shapes(frame, corners[name])]
    for name, topic in topics.items():
        is_internal = topic in internal_topics or topic.startswith("chosen ")
        shapes.append(_topic_shape(topic, layout.centers[name], size, is_internal=is_internal))
    return _document(shapes, channel, layout.height)


class _Flow(NamedTuple):
    """A line between a topic and a frame, and the operator inside the frame that it belongs to."""

    edge: Edge
    node: str


def _frame(part: Part, size: _Size) -> _Frame:
    nodes = nodes_of(part)
    boxes = {
        node.name: Box(
            _operator_width(node, size),
            _operator_height(node),
            at_bottom=node.kind == "sink",
        )
        for node in nodes
    }
    edges = [Edge(node.name, below) for node in nodes for below in node.successors]
    layout = layered(boxes, edges, gap_x=size.gap, gap_y=_GAP, max_width=size.of_frame)
    width = max(layout.width, _text_width(title_of(part))) + 2 * _PADDING
    return _Frame(part, size, layout, edges, width, layout.height + 2 * _PADDING + _TITLE)


def _operator_width(node: NodeDescription, size: _Size) -> float:
    stores = (_text_width(size.fitting(store)) + 16 for store in node.stores)
    texts = (_text_width(size.fitting(line)) for line in lines_of(node))
    return max(*texts, *stores, 0.0) + _PADDING


def _flows(frames: dict[str, _Frame]) -> list[_Flow]:
    flows = []
    for name, frame in frames.items():
        for node in nodes_of(frame.part):
            offset = frame.inside(node.name, (0.0, 0.0))[0] - frame.width / 2
            flows += [
                _Flow(Edge(f"topic {topic}", name, end_offset=offset), node.name)
                for topic in node.reads
            ]
            if (written := topic_written(node)) is not None:
                edge = Edge(name, f"topic {written}", start_offset=offset)
                flows.append(_Flow(edge, node.name))
    return flows


def _leading_back(edges: Sequence[tuple[str, str]], names: Sequence[str]) -> set[int]:
    """The edges to leave out so that no cycle remains, found by walking depth first."""
    below: dict[str, list[int]] = {name: [] for name in names}
    for number, (start, _) in enumerate(edges):
        below[start].append(number)
    ends = {end for _, end in edges}
    back: set[int] = set()
    open_now: set[str] = set()
    done: set[str] = set()

    def walk(first: str) -> None:
        open_now.add(first)
        way = [(first, iter(below[first]))]
        while way:
            name, numbers = way[-1]
            for number in numbers:
                end = edges[number][1]
                if end in open_now:
                    back.add(number)
                elif end not in done:
                    open_now.add(end)
                    way.append((end, iter(below[end])))
                    break
            else:
                way.pop()
                open_now.discard(name)
                done.add(name)

    for name in [*(name for name in names if name not in ends), *names]:
        if name not in done:
            walk(name)
    return back


# --- lines ----------------------------------------------------------------------------------------


def _forward_points(
    flow: _Flow,
    frames: dict[str, _Frame],
    corners: dict[str, Point],
    layout: Layout,
    bends: Sequence[Point],
) -> list[Point]:
    start, end = flow.edge.start, flow.edge.end
    if start in frames:
        frame, corner = frames[start], corners[start]
        x, y = frame.inside(flow.node, corner)
        leaving = [(x, y + _height(frame, flow.node) / 2), (x, corner[1] + frame.height)]
        topic_x, topic_y = layout.centers[end]
        return [*leaving, *bends, (topic_x, topic_y - 14)]
    frame, corner = frames[end], corners[end]
    x, y = frame.inside(flow.node, corner)
    topic_x, topic_y = layout.centers[start]
    entering = [(x, corner[1]), (x, y - _height(frame, flow.node) / 2)]
    return [(topic_x, topic_y + 14), *bends, *entering]


def _points_around(
    flow: _Flow,
    frames: dict[str, _Frame],
    corners: dict[str, Point],
    layout: Layout,
    boxes: dict[str, Box],
    channel: float,
) -> list[Point]:
    """Return points from a topic, or a frame's bottom, around the right side to a box above."""
    start, end = flow.edge.start, flow.edge.end
    if start in frames:
        points = [_forward_points(flow, frames, corners, layout, [])[0]]
        points.append((points[0][0], corners[start][1] + frames[start].height + 10))
        points.append((channel, points[-1][1]))
    else:
        x, y = layout.centers[start]
        points = [(x + boxes[start].width / 2, y), (channel, y)]
    if end in frames:
        x, y = frames[end].inside(flow.node, corners[end])
        above = corners[end][1] - 10
        into = (x, y - _height(frames[end], flow.node) / 2)
    else:
        x, y = layout.centers[end]
        above = y - 24
        into = (x, y - 14)
    return [*points, (channel, above), (x, above), into]


def _curve(points: Sequence[Point]) -> str:
    """A smooth line downwards through points."""
    first, *_ = points
    text = f"M{_number(first[0])} {_number(first[1])}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = _number((y0 + y1) / 2)
        text += (
            f"C{_number(x0)} {middle} {_number(x1)} {middle} {_number(x1)} {_number(y1)}"
            if abs(x0 - x1) > 0.05
            else f"L{_number(x1)} {_number(y1)}"
        )
    return f'<path class="flow" d="{text}"/>'


def _path(points: Sequence[Point]) -> str:
    text = "L".join(f"{_number(x)} {_number(y)}" for x, y in points)
    return f'<path class="flow" stroke-linejoin="round" d="M{text}"/>'


# --- shapes ---------------------------------------------------------------------------------------


def _frame_shape(frame: _Frame, corner: Point) -> str:
    x, y = corner
    return f'<rect class="frame" rx="6" {_rectangle(x, y, frame.width, frame.height)}/>'


def _title_shape(frame: _Frame, corner: Point) -> str:
    return (
        f'<text class="title" x="{_number(corner[0] + 10)}" y="{_number(corner[1] + 17)}">'
        f"{title_of(frame.part)}</text>"
    )


def _operator_shapes(frame: _Frame, corner: Point) -> list[str]:
    lines = []
    for edge, bends in zip(frame.edges, frame.layout.bends, strict=True):
        x, y = frame.inside(edge.start, corner)
        end_x, end_y = frame.inside(edge.end, corner)
        shifted = [frame.place(bend, corner) for bend in bends]
        start = (x, y + _height(frame, edge.start) / 2)
        lines.append(_curve([start, *shifted, (end_x, end_y - _height(frame, edge.end) / 2)]))
    nodes = nodes_of(frame.part)
    return lines + [
        _operator_shape(node, frame.inside(node.name, corner), frame.size) for node in nodes
    ]


def _operator_shape(node: NodeDescription, center: Point, size: _Size) -> str:
    lines, stores = lines_of(node), node.stores
    width, height = _operator_width(node, size), _operator_height(node)
    x, y = center[0] - width / 2, center[1] - height / 2
    kind = "operator" if node.kind == "processor" else "end"
    text = (
        f'<g><title>{node.kind} {escape(" ".join(lines))}</title><rect class="{kind}" rx="3"'
        f" {_rectangle(x, y, width, height)}/>"
    )
    for number, line in enumerate(lines):
        text += (
            f'<text text-anchor="middle" x="{_number(center[0])}"'
            f' y="{_number(y + 17 + _LINE * number)}">{escape(size.fitting(line))}</text>'
        )
    for number, store in enumerate(map(size.fitting, stores), len(lines)):
        left = center[0] - (_text_width(store) + 16) / 2
        base = y + 17 + _LINE * number
        text += _cylinder(left, base - 9) + (
            f'<text class="store" x="{_number(left + 16)}" y="{_number(base)}">{store}</text>'
        )
    return text + "</g>"


def _operator_height(node: NodeDescription) -> float:
    return _LINE * (len(lines_of(node)) + len(node.stores)) + 9


def _cylinder(x: float, y: float) -> str:
    return (
        f'<path class="cylinder" d="M{_number(x)} {_number(y + 2)}v6a5 2 0 0 0 10 0v-6'
        f'a5 2 0 0 0 -10 0a5 2 0 0 0 10 0"/>'
    )


def _topic_shape(topic: str, center: Point, size: _Size, *, is_internal: bool) -> str:
    width = _text_width(size.fitting(topic)) + _GAP
    kind = "topic internal" if is_internal else "topic"
    written = escape(size.fitting(topic))  # a pattern of topics may hold anything
    return (
        f'<g><title>topic {escape(topic)}</title><rect class="{kind}" rx="14"'
        f" {_rectangle(center[0] - width / 2, center[1] - 14, width, 28)}/>"
        f'<text text-anchor="middle" x="{_number(center[0])}" y="{_number(center[1] + 4)}">'
        f"{written}</text></g>"
    )


def _document(shapes: Sequence[str], width: float, height: float) -> str:
    view = f"{_number(-_PADDING)} {_number(-_PADDING)}"
    full = f"{_number(width + 2 * _PADDING)} {_number(height + 2 * _PADDING)}"
    size = 'width="{}" height="{}"'.format(*full.split())
    body = "\n".join(shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view} {full}" {size} role="img">\n'
        f"<style>{_STYLE}</style>\n{_ARROW}\n"
        f'<rect x="{_number(-_PADDING)}" y="{_number(-_PADDING)}" {size} fill="#ffffff"/>\n'
        f"{body}\n</svg>\n"
    )


def _height(frame: _Frame, name: str) -> float:
    node = next(node for node in nodes_of(frame.part) if node.name == name)
    return _operator_height(node)


def _text_width(text: str) -> float:
    """Of a monospaced font, so that it need not be measured."""
    return _CHARACTER * len(text)


def _rectangle(x: float, y: float, width: float, height: float) -> str:
    return f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'


def _number(value: float) -> str:
    """At most one digit after the point, and no minus before zero."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
