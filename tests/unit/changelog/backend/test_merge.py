"""Fresh rows over stored ones, in key order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logstate.changelog.backend.ordered import merge_rows

PREFIX = b"p:"
some_rows = st.dictionaries(st.binary(max_size=2), st.binary(max_size=1), max_size=8)
some_writes = st.dictionaries(st.binary(max_size=2), st.none() | st.binary(max_size=1), max_size=8)


def merged(
    fresh: dict[bytes, bytes | None], stored: dict[bytes, bytes], *, reverse: bool = False
) -> list[tuple[bytes, bytes]]:
    below = iter(sorted(((PREFIX + k, v) for k, v in stored.items()), reverse=reverse))
    above = sorted(fresh.items(), reverse=reverse)
    return list(merge_rows(above, below, len(PREFIX), reverse=reverse))


def test_the_fresh_row_wins_and_a_deleted_one_hides_the_stored_one() -> None:
    stored = {b"a": b"old", b"b": b"old", b"d": b"old"}
    assert merged({b"a": b"new", b"b": None, b"c": b"new"}, stored) == [
        (b"a", b"new"),
        (b"c", b"new"),
        (b"d", b"old"),
    ]


def test_deleting_what_was_never_stored_gives_no_row() -> None:
    assert merged({b"a": None, b"c": None}, {b"b": b"1"}) == [(b"b", b"1")]


@given(some_writes, some_rows, st.booleans())
def test_merging_is_updating_a_dict(
    fresh: dict[bytes, bytes | None], stored: dict[bytes, bytes], reverse: bool
) -> None:
    expected = {k: v for k, v in {**stored, **fresh}.items() if v is not None}
    assert merged(fresh, stored, reverse=reverse) == sorted(expected.items(), reverse=reverse)
