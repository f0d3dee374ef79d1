"""The comparison itself, on hand-made recordings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from .compare import Graph, graph_differences, run_differences
from .mutation import mutations
from .vectors import Case, Run

RUN = Run(
    seed=1,
    events=[],
    output=[
        {"topic": "out", "key": "a", "value": 1, "ts": 5, "cause": 0},
        {"topic": "out", "key": "b", "value": None, "ts": 6, "headers": [["h", None]], "cause": 1},
    ],
    stores={
        "s": {"type": "timestamped_key_value", "rows": [["a", 1, 5], ["b", 2, 6]]},
        "buffer": {"type": "buffer", "num_records": 0},
        "w": {"type": "window", "unreadable": True},
    },
    dropped=[[1, 2]],
    changelog={"app-s-changelog": [[0, "61", "01", 5], [1, "62", None, 6, [["v", "03"]]]]},
    internal={"app-g-repartition": [[0, "61", "01", 5]]},
    error={"cause": 1, "exception": "StreamsException"},
)


def case_of(*steps: dict[str, Any]) -> Case:
    return Case("hand-made", {"application.id": "app"}, list(steps), {}, {}, "", {}, [])


def differs(expected: Run, actual: Run, case: Case | None = None, *, strict: bool = False) -> bool:
    return any(run_differences(case or case_of(), expected, actual, strict=strict))


def test_a_run_equals_itself():
    assert not differs(RUN, replace(RUN))


@pytest.mark.parametrize(
    "member", ["output", "stores", "dropped", "changelog", "internal", "error"]
)
def test_every_change_of_every_leaf_is_noticed(member):
    changes = list(mutations(getattr(RUN, member)))
    assert len(changes) > 2
    unnoticed = [
        where for where, changed in changes if not differs(replace(RUN, **{member: changed}), RUN)
    ]
    assert unnoticed == []


def test_a_lost_error_is_noticed():
    assert differs(RUN, replace(RUN, error=None))
    assert differs(replace(RUN, error=None), RUN)


def test_every_change_of_names_and_description_is_noticed():
    names = {
        "sub_topologies": [
            {"id": 0, "nodes": [{"name": "in", "type": "source", "topics": ["in"]}]}
        ],
        "changelog_topics": {"s": "app-s-changelog"},
        "stores": ["s"],
    }
    case = replace(case_of(), names=names, describe="Topologies:\n   Sub-topology: 0\n\n")
    graph = Graph(names, case.describe)
    assert not list(graph_differences(case, graph))
    for where, changed in mutations(names):
        assert list(graph_differences(replace(case, names=changed), graph)), where
    for where, changed in mutations(case.describe):
        assert list(graph_differences(replace(case, describe=changed), graph)), where
    assert list(graph_differences(replace(case, describe=case.describe + "\n"), graph))


def record(topic: str, key: str, value: int, cause: int = 0) -> dict[str, Any]:
    return {"topic": topic, "key": key, "value": value, "ts": 1, "cause": cause}


def test_inside_one_event_different_topics_may_be_written_in_any_order():
    one, two = record("x", "a", 1), record("y", "a", 1)
    assert not differs(replace(RUN, output=[one, two]), replace(RUN, output=[two, one]))
    assert differs(replace(RUN, output=[one, two]), replace(RUN, output=[two, one]), strict=True)


def test_between_events_nothing_may_be_reordered():
    one, two = record("x", "a", 1), record("y", "a", 1)
    late_one, late_two = one | {"cause": 1}, two | {"cause": 1}
    assert differs(replace(RUN, output=[one, late_two]), replace(RUN, output=[two, late_one]))


def test_one_topic_keeps_its_order_where_no_window_overlaps_another():
    one, two = record("x", "a", 1), record("x", "b", 1)
    assert differs(replace(RUN, output=[one, two]), replace(RUN, output=[two, one]))


def test_different_windows_of_one_record_may_come_in_any_order_but_a_key_keeps_its_own():
    case = case_of({"op": "count", "name": "n", "window": {"type": "hopping"}})
    one, two, three = record("x", "a", 1), record("x", "b", 1), record("x", "a", 2)
    expected = replace(RUN, output=[one, two, three])
    assert not differs(expected, replace(RUN, output=[two, one, three]), case)
    assert differs(expected, replace(RUN, output=[three, two, one]), case)
    assert differs(expected, replace(RUN, output=[one, one, three]), case)


def test_only_a_suppress_buffer_may_log_different_keys_in_any_order():
    case = case_of({"op": "suppress", "name": "sup"})
    one, two = [0, "61", "01", None], [0, "62", "01", None]
    for topic, may in (("app-sup-store-changelog", True), ("app-s-changelog", False)):
        expected = replace(RUN, changelog={topic: [one, two]})
        assert differs(expected, replace(RUN, changelog={topic: [two, one]}), case) is not may
        assert differs(expected, replace(RUN, changelog={topic: [one, one]}), case)


def test_the_first_record_that_differs_is_named():
    changed = [RUN.output[0], RUN.output[1] | {"value": 7}]
    (difference,) = run_differences(case_of(), RUN, replace(RUN, output=changed))
    assert str(difference).startswith("output[1]: expected {'topic': 'out', 'key': 'b'")
    assert "'value': 7" in str(difference)
