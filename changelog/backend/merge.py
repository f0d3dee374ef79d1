"""Merging fresh rows over stored ones in key order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_NONE: tuple[None, None] = (None, None)


def merge_rows(
    fresh: Iterable[tuple[bytes, bytes | None]],
    stored: Iterator[tuple[bytes, bytes]],
    prefix_length: int,
    *,
    reverse: bool,
) -> Iterator[tuple[bytes, bytes]]:
    """Both sorted alike; the fresh row wins, a fresh None hides the stored row.

    ``stored`` keys carry a prefix of ``prefix_length`` bytes that the result does not.
    """
    fresh = iter(fresh)
    fresh_key, fresh_value = next(fresh, _NONE)
    for full_key, stored_value in stored:
        key = full_key[prefix_length:]
        while fresh_key is not None and (fresh_key > key if reverse else fresh_key < key):
            if fresh_value is not None:
                yield fresh_key, fresh_value
            fresh_key, fresh_value = next(fresh, _NONE)
        if fresh_key == key:
            if fresh_value is not None:
                yield key, fresh_value
            fresh_key, fresh_value = next(fresh, _NONE)
        else:
            yield key, stored_value
    if fresh_key is not None:
        if fresh_value is not None:
            yield fresh_key, fresh_value
        for key, value in fresh:
            if value is not None:
                yield key, value
