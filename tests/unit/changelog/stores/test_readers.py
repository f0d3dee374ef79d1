"""Readers of queries against the stores themselves, of every kind that has one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstate.changelog.rows.rows import Rows
from logstate.changelog.stores.kinds import kind_of, reader_maker
from logstate.changelog.view import CommittedRows
from tests.examples_tried import at_most
from tests.unit.changelog.store_bench import StoreBench
from tests.unit.changelog.store_kinds import KEYS, KINDS, RETENTION_MS, Input, KindUnderTest

READ = [kind for kind in KINDS if kind_of(kind.spec).reader]
#: what changes a store or its rows
WRITES = {
    "add",
    "delete",
    "delete_range",
    "forget",
    "put",
    "put_all",
    "put_if_absent",
    "put_rows",
    "remove",
    "restore",
    "take_out",
}
ADVANCES = (0, 1, 3, 10, 40, RETENTION_MS + 1, 12 * RETENTION_MS)
RECORDS = st.tuples(
    st.sampled_from(KEYS),
    st.none() | st.integers(0, 3),
    st.sampled_from(ADVANCES),
    st.sampled_from((0, 0, 5, 60, 3 * RETENTION_MS)),
    st.integers(0, 4),
    st.sampled_from(("goes on", "commits", "commits", "applies")),
)


def reader_of(bench: StoreBench) -> Any:
    return bench.state.view.reader(bench.spec.name, reader_maker(bench.spec, "app"))


@pytest.mark.parametrize("kind", READ, ids=repr)
@settings(max_examples=at_most(20))
@given(is_on_disk=st.sampled_from((False, False, True)), records=st.lists(RECORDS, max_size=25))
def test_a_reader_answers_as_the_store_did_at_the_commit(
    kind: KindUnderTest, is_on_disk: bool, records: list[tuple[str, Any, int, int, int, str]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        bench = StoreBench(kind.spec, Path(directory) / "db" if is_on_disk else None)
        bench.state.publish_views()
        clock, held = 0, []
        for key, value, advance, delay, choice, then in records:
            clock += advance
            bench.context.timestamp = clock
            kind.process(
                bench.store, Input(key, value, max(0, clock - delay), choice), bench.context
            )
            if then != "goes on":
                bench.commit(applies=then == "applies")
                # A versioned store tells a processor less than whoever asks from outside.
                answers = kind.answers(getattr(bench.store, "queried", bench.store), clock)
                assert kind.answers(reader_of(bench), clock) == answers
                held.append((reader_of(bench), clock, answers))
        for reader, then_clock, answers in held:
            assert kind.answers(reader, then_clock) == answers
        bench.close()


@pytest.mark.parametrize("kind", READ, ids=repr)
def test_a_reader_has_nothing_to_write_with(kind: KindUnderTest) -> None:
    bench = StoreBench(kind.spec)
    bench.state.publish_views()
    reader = reader_of(bench)
    assert not WRITES & set(dir(reader))
    assert WRITES & set(dir(bench.store)), "else the names are wrong"
    held = [*vars(reader).values(), *vars(bench.state.view.rows["store"]).values()]
    assert not [part for part in held if isinstance(part, Rows)]


def test_committed_rows_have_nothing_to_write_with() -> None:
    assert not WRITES & set(dir(CommittedRows))


def test_readers_of_a_view_are_made_once() -> None:
    bench = StoreBench(READ[0].spec)
    bench.state.publish_views()
    before = reader_of(bench)
    assert reader_of(bench) is before
    bench.commit(applies=False)
    assert reader_of(bench) is not before
