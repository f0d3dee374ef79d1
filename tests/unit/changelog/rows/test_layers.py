"""Runs of committed layers against one dict of all that is committed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from logstate.changelog.rows.layers import Layer, Run, runs_of, scan_runs

KEYS = st.binary(max_size=2)
LAYERS = st.lists(st.dictionaries(KEYS, st.none() | st.binary(max_size=1), max_size=5), max_size=20)


def layers_of(rows: Sequence[dict[bytes, bytes | None]]) -> list[Layer]:
    layers = [Layer() for _ in rows]
    for layer, its_rows in zip(layers, rows, strict=True):
        layer.rows = its_rows
    return layers


def rows_of(runs: Sequence[Run], *, reverse: bool = False) -> list[tuple[bytes, bytes | None]]:
    return list(scan_runs(runs, b"", None, reverse=reverse))


@given(LAYERS, st.lists(st.tuples(st.integers(0, 20), KEYS, st.none() | KEYS, st.booleans())))
def test_views_of_any_age_read_their_own_commits_in_order(
    rows: list[dict[bytes, bytes | None]],
    scans: list[tuple[int, bytes, bytes | None, bool]],
) -> None:
    layers = layers_of(rows)
    held = {}
    for commits, lower, upper, reverse in scans:
        commits = min(commits, len(rows))
        expected: dict[bytes, bytes | None] = {}
        for layer in rows[:commits]:
            expected |= layer
        runs = held.setdefault(commits, runs_of(layers[:commits]))
        found = list(scan_runs(runs, lower, upper, reverse=reverse))
        assert found == sorted(
            (
                (key, row)
                for key, row in expected.items()
                if key >= lower and (upper is None or key < upper)
            ),
            reverse=reverse,
        )
        assert rows_of(runs_of(layers[:commits])) == rows_of(runs)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=30))
def test_each_run_is_twice_as_large_as_the_next_newer_one(
    commits: list[tuple[int, int]],
) -> None:
    layers = layers_of(
        [{b"%d" % key: b"" for key in range(first, first + count)} for first, count in commits]
    )
    for end in range(len(layers) + 1):
        sizes = [len(run.rows) for run in runs_of(layers[:end])]
        assert all(older >= 2 * newer for newer, older in pairwise(sizes))


def test_only_the_newest_runs_are_kept() -> None:
    layers = layers_of([{b"%d" % number: b""} for number in range(64)])
    for commits in range(1, 65):
        runs_of(layers[:commits])
    assert [layer.runs is not None for layer in layers] == [False] * 63 + [True]
    assert runs_of(layers) is runs_of(layers)


def test_a_run_is_sorted_for_scans_only() -> None:
    layers = layers_of([{b"b": b"1", b"a": b"1", b"c": None}])
    (run,) = runs_of(layers)
    assert not run.is_sorted
    assert rows_of([run], reverse=True) == [(b"c", None), (b"b", b"1"), (b"a", b"1")]
    assert run.is_sorted
