"""What must be equal between a recorded run and a replayed one.

Both sides have the shape of a recording. ``output``, ``changelog`` and ``internal`` are compared
record by record in order, ``stores``, ``dropped``, ``error``, ``names`` and ``describe`` whole.
Three orders are a property of the recorder and not a rule, always inside one event:

- of output records on different topics;
- of the updates of different windows for one record (hopping and sliding windows);
- of different keys in the changelog of a suppress buffer.

Such a stretch is compared per lane instead: per topic, per topic and key, per key. A lane keeps its
order and must be equal. ``strict`` turns the three off.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any, NamedTuple

from .settings import has_cache
from .vectors import Case, Run

MISSING = "nothing"


class Difference(NamedTuple):
    """The first place where one member of a recording differs."""

    member: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        return f"{self.member}: expected {_short(self.expected)}, got {_short(self.actual)}"


@dataclass(frozen=True)
class Graph:
    """What a built topology says of itself, in the words of the recordings."""

    names: dict[str, Any]
    describe: str


def graph_differences(case: Case, graph: Graph) -> Iterator[Difference]:
    """Names and description of the topology."""
    if case.names is not None:
        yield from tree_differences("names", case.names, graph.names)
    expected, actual = case.describe.splitlines(), graph.describe.splitlines()
    yield from list_differences("describe line", expected, actual)


def run_differences(
    case: Case, expected: Run, actual: Run, *, strict: bool = False
) -> Iterator[Difference]:
    """Every member that differs, each at its first difference."""
    lane = None if strict else _output_lane(case)
    yield from _ordered("output", expected.output, actual.output, _output_cause, lane)
    logged = [expected.changelog, actual.changelog]
    if has_cache(case.config):
        logged = [logged_per_commit(case.steps, case.config["application.id"], x) for x in logged]
    yield from _topic_differences(case, "changelog", *logged, strict)
    yield from _topic_differences(case, "internal", expected.internal, actual.internal, strict)
    if expected.stores is not None:
        yield from tree_differences("stores", expected.stores, actual.stores)
    yield from list_differences("dropped", expected.dropped, actual.dropped)
    if expected.error != actual.error:
        yield Difference("error", expected.error, actual.error)


def _topic_differences(
    case: Case,
    member: str,
    expected: dict[str, list[list[Any]]],
    actual: dict[str, list[list[Any]]],
    strict: bool,
) -> Iterator[Difference]:
    buffers = set() if strict else suppress_changelogs(case.steps, case.config["application.id"])
    for topic in sorted(expected.keys() | actual.keys()):
        lane = (lambda row: row[1]) if topic in buffers else None
        yield from _ordered(
            f"{member} {topic}",
            expected.get(topic, []),
            actual.get(topic, []),
            lambda row: row[0],
            lane,
        )


def _ordered(
    member: str,
    expected: Sequence[Any],
    actual: Sequence[Any],
    cause: Callable[[Any], Any],
    lane: Callable[[Any], Hashable] | None,
) -> Iterator[Difference]:
    """Equal as lists, or, with a lane, equal lane by lane inside each cause."""
    if expected == actual:
        return
    if lane is not None:
        expected = sorted(expected, key=lambda row: (cause(row), str(lane(row))))
        actual = sorted(actual, key=lambda row: (cause(row), str(lane(row))))
    yield from list_differences(member, expected, actual)


def list_differences(
    member: str, expected: Sequence[Any], actual: Sequence[Any]
) -> Iterator[Difference]:
    """The first place where two lists differ."""
    for index, (left, right) in enumerate(zip_longest(expected, actual, fillvalue=MISSING)):
        if left != right or type(left) is not type(right):
            # Records are shown whole; what lies deeper in a tree is shown alone.
            nested = isinstance(left, dict) and member.startswith("names")
            yield from _inner(f"{member}[{index}]", left, right, nested)
            return


def _inner(path: str, left: Any, right: Any, nested: bool) -> Iterator[Difference]:
    if nested and isinstance(right, dict):
        yield next(tree_differences(path, left, right))
    else:
        yield Difference(path, left, right)


def tree_differences(path: str, expected: Any, actual: Any) -> Iterator[Difference]:
    """The first difference of each branch of a tree of dicts."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted(expected.keys() | actual.keys()):
            yield from tree_differences(
                f"{path}.{key}", expected.get(key, MISSING), actual.get(key, MISSING)
            )
    elif isinstance(expected, list) and isinstance(actual, list):
        yield from list_differences(path, expected, actual)
    elif expected != actual or type(expected) is not type(actual):
        yield Difference(path, expected, actual)


def _output_cause(record: dict[str, Any]) -> int:
    return int(record.get("cause", -1))


def _output_lane(case: Case) -> Callable[[dict[str, Any]], Hashable]:
    windows = (step.get("window") or {} for step in case.steps)
    if any(window.get("type") in ("hopping", "sliding") for window in windows):
        return lambda record: (record.get("topic"), str(record.get("key")))
    return lambda record: record.get("topic")


def suppress_changelogs(steps: list[dict[str, Any]], application_id: str) -> set[str]:
    """The changelogs of suppress buffers among the steps."""
    names = (step["name"] for step in steps if step["op"] == "suppress")
    return {f"{application_id}-{name}-store-changelog" for name in names}


def logged_per_commit(
    steps: list[dict[str, Any]],
    application_id: str,
    topics: dict[str, list[list[Any]]],
) -> dict[str, list[list[Any]]]:
    """What changelogs say where events commit, which may be some events after a write.

    Of a store whose results are emitted at commits only the last write of each key and commit
    counts, and a deletion only of a row that an earlier commit has. The rows of other stores have
    no cause.
    """
    held = {
        f"{application_id}-{step['store']}-changelog"
        for step in steps
        if step.get("emit") == "on_commit"
    }
    found = {}
    for topic, rows in topics.items():
        if topic in held:
            found[topic] = _last_writes(rows)
        elif topic.endswith("-changelog"):
            found[topic] = [[0, *row[1:]] for row in rows]
        else:
            found[topic] = rows
    return {topic: rows for topic, rows in found.items() if rows}


def _last_writes(rows: list[list[Any]]) -> list[list[Any]]:
    known: set[Any] = set()
    found = []
    for _, group in groupby(rows, key=lambda row: row[0]):
        last: dict[Any, list[Any]] = {}
        for row in group:
            last.pop(row[1], None)
            last[row[1]] = row
        found += [row for row in last.values() if row[2] is not None or row[1] in known]
        known |= {row[1] for row in last.values() if row[2] is not None}
        known -= {row[1] for row in last.values() if row[2] is None}
    return found


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 400 else text[:400] + " ..."
