"""Merging fresh rows over stored ones in key order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def merge_rows(
    fresh: Sequence[tuple[bytes, bytes | None]],
    stored: Iterator[tuple[bytes, bytes]],
    prefix_length: int,
    *,
    reverse: bool,
) -> Iterator[tuple[bytes, bytes]]:
    """Both sorted alike; the fresh row wins, a fresh None hides the stored row.

    ``stored`` keys carry a prefix of ``prefix_length`` bytes that the result does not.
    """
    position = 0
    for full_key, stored_value in stored:
        key = full_key[prefix_length:]
        while position < len(fresh) and (
            fresh[position][0] > key if reverse else fresh[position][0] < key
        ):
            row = fresh[position]
            position += 1
            if row[1] is not None:
                yield row[0], row[1]
        if position < len(fresh) and fresh[position][0] == key:
            row = fresh[position]
            position += 1
            if row[1] is not None:
                yield key, row[1]
        else:
            yield key, stored_value
    for key, value in fresh[position:]:
        if value is not None:
            yield key, value
