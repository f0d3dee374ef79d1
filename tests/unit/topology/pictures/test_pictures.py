"""Mermaid and SVG: the kept pictures, what they must show, and the layout's own rules."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.topology import StreamsBuilder
from logstate.topology.pictures.layered_layout import Box, Edge, Layout, layered
from tests.unit.topology.pictures.pictures import FOLDER, TOPOLOGIES

AGAIN = "if the change is intended: python -m tests.unit.topology.pictures.pictures; look at it"


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_flowchart_is_the_one_that_was_looked_at(name: str) -> None:
    kept = (FOLDER / f"{name}.mmd").read_text(encoding="utf-8")
    assert TOPOLOGIES[name]().to_mermaid() == kept, AGAIN


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_picture_is_the_one_that_was_looked_at(name: str) -> None:
    kept = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert TOPOLOGIES[name]().to_svg() == kept, AGAIN


def test_a_pattern_of_topics_is_written_in_a_picture_as_it_is() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("a(?<!x&)b"), key=str, value=str).to("out")
    root = ElementTree.fromstring(builder.build().to_svg())
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a(?<!x&)b" in texts


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_picture_is_one_document_with_every_name_in_it(name: str) -> None:
    topology = TOPOLOGIES[name]()
    root = ElementTree.fromstring(topology.to_svg())  # it parses
    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    described = topology.describe()
    assert len(set(texts)) > 10
    for node in re.findall(r"(?:Source|Processor|Sink): (\S+)", described):
        assert node in texts
    for store in [*topology.stores, *topology.global_stores]:
        assert store in texts
    for topics in re.findall(r"topics?: \[?([^])]+)", described):
        assert all(topic in texts for topic in topics.split(", "))
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|<script|@import", topology.to_svg())


def test_a_notebook_shows_the_picture_and_terminals_the_text() -> None:
    topology = TOPOLOGIES["orders"]()
    bundle = topology._repr_mimebundle_()
    assert bundle["image/svg+xml"] == topology.to_svg()
    assert bundle["text/plain"] == topology.describe()


def test_internal_topics_are_marked_in_the_flowchart() -> None:
    text = TOPOLOGIES["orders"]().to_mermaid()
    assert '(["amount-repartition"]):::internal' in text
    assert '(["orders"])\n' in text


# --- the layout -----------------------------------------------------------------------------------

sizes = st.builds(
    Box,
    st.floats(5, 300),
    st.floats(5, 80),
)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, Box], list[Edge]]:
    """Graphs without cycles: edges go from lower to higher numbers."""
    boxes = {f"box {n}": draw(sizes) for n in range(draw(st.integers(1, 12)))}
    names = list(boxes)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []
    return boxes, [Edge(a, b) for a, b in chosen]


def placed(boxes: dict[str, Box], edges: list[Edge]) -> Layout:
    return layered(boxes, edges, gap_x=10, gap_y=20)


@given(graphs())
def test_boxes_never_overlap_and_lie_within_the_picture(
    graph: tuple[dict[str, Box], list[Edge]],
) -> None:
    boxes, edges = graph
    layout = placed(boxes, edges)
    for name, box in boxes.items():
        x, y = layout.centers[name]
        assert x - box.width / 2 >= -0.001
        assert x + box.width / 2 <= layout.width + 0.001
        assert y - box.height / 2 >= -0.001
        assert y + box.height / 2 <= layout.height + 0.001
        for other, size in boxes.items():
            if other != name:
                beside = abs(x - layout.centers[other][0]) + 0.001
                below = abs(y - layout.centers[other][1]) + 0.001
                assert beside >= (box.width + size.width) / 2 + 10 or below >= (
                    (box.height + size.height) / 2
                )


@given(graphs())
def test_every_line_leads_down(graph: tuple[dict[str, Box], list[Edge]]) -> None:
    boxes, edges = graph
    layout = placed(boxes, edges)
    for edge, bends in zip(edges, layout.bends, strict=True):
        heights = [
            layout.centers[edge.start][1],
            *(y for _, y in bends),
            layout.centers[edge.end][1],
        ]
        assert all(above < below for above, below in pairwise(heights))


def test_a_chain_stands_in_one_column() -> None:
    boxes = {"a": Box(50, 10), "b": Box(90, 10), "c": Box(20, 10)}
    layout = placed(boxes, [Edge("a", "b"), Edge("b", "c")])
    assert [x for x, _ in layout.centers.values()] == [45, 45, 45]


def test_lines_do_not_cross_where_they_need_not() -> None:
    boxes = {name: Box(20, 10) for name in ("a", "b", "x", "y")}
    layout = placed(boxes, [Edge("a", "y"), Edge("b", "x")])
    at = {name: x for name, (x, _) in layout.centers.items()}
    assert (at["a"] < at["b"]) == (at["y"] < at["x"])


def test_an_empty_graph_has_no_size() -> None:
    assert placed({}, []) == Layout({}, [], 0.0, 0.0)


def widths(svg: str) -> tuple[float, float]:
    """Of the document, and of its widest box."""
    root = ElementTree.fromstring(svg)
    boxes = [one for one in root.iter("{http://www.w3.org/2000/svg}rect") if one.get("class")]
    return float(root.attrib["width"]), max(float(one.attrib["width"]) for one in boxes)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_picture_for_a_phone_is_narrow_and_has_the_names_in_its_titles(name: str) -> None:
    topology = TOPOLOGIES[name]()
    wide, narrow = topology.to_svg(), topology.to_svg(max_width=400)
    width, widest = widths(narrow)
    assert width < widths(wide)[0]
    assert width <= 460, "lines around the boxes may need a little more"
    assert widest <= 400 - 32
    titles = re.compile(r"<title>.*?</title>")
    assert sorted(titles.findall(narrow)) == sorted(titles.findall(wide))


def test_a_long_name_is_abbreviated_in_the_middle() -> None:
    builder = StreamsBuilder()
    long = "a" * 40 + "-" + "b" * 40
    builder.stream(long, key=str, value=str, name="source").to("out", name="sink")
    narrow = builder.build().to_svg(max_width=300)
    (shown,) = re.findall(r">(a+…b+)<", narrow)
    assert 20 < len(shown) < 40
    assert f"<title>topic {long}</title>" in narrow
    assert widths(narrow)[0] <= 300


@given(
    widths_of=st.lists(st.integers(10, 120), min_size=1, max_size=12),
    max_width=st.integers(120, 400),
)
def test_boxes_without_lines_fit_into_the_width(widths_of: list[int], max_width: int) -> None:
    boxes = {str(number): Box(float(one), 20.0) for number, one in enumerate(widths_of)}
    found = layered(boxes, [], gap_x=12.0, gap_y=12.0, max_width=float(max_width))
    assert found.width <= max_width
    places = sorted((x - boxes[name].width / 2, y, name) for name, (x, y) in found.centers.items())
    for left, right in pairwise(places):
        if left[1] == right[1]:
            assert left[0] + boxes[left[2]].width + 12.0 <= right[0] + 1e-6
