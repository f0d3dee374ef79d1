"""Decode the waiting records in the rows of buffers: of suppress, and of left and outer joins.

A suppress buffer's value is an update with its origin (`suppress_values`); the waiting record is
the new value in it. An outer join's row is a list of values of one side (`outer_join_buffer`), with
the side and the record's time before the key.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, chain

import pyarrow as pa
import pyarrow.compute as pc

from logstate.changelog.reading.blocks import numbers
from logstate.changelog.rows.suppress_values import decode_update
from logstate.changelog.stores.outer_join_buffer import decode_list

_TIME_BYTES = 8


def waiting_values(rows: pa.Array) -> pa.Array:
    """The new value of each buffered update; null where a delete waits, or the row is none."""
    found = (None if row is None else decode_update(row).new for row in rows.to_pylist())
    return pa.array(found, pa.binary(), size=len(rows))


def buffer_times(rows: pa.Array) -> pa.Array:
    """The time that decides when an update leaves the buffer, in ms."""
    return numbers(pc.binary_slice(rows, -_TIME_BYTES, None), pa.int64())


def record_times(keys: pa.Array) -> pa.Array:
    """When the records of a row of an outer join happened, in ms."""
    return numbers(pc.binary_slice(keys, 0, _TIME_BYTES), pa.int64())


def side_values(
    keys: pa.Array, rows: pa.Array, side: int, fill: Callable[[pa.Array], pa.Array], name: str
) -> pa.Array:
    """The values of rows of one side as lists; null for rows of the other side.

    ``side`` is 1 for left and 0 for right, ``fill`` decodes values.
    """
    lists = [
        decode_list(row, name) if row is not None and key[_TIME_BYTES] == side else None
        for key, row in zip(keys.to_pylist(), rows.to_pylist(), strict=True)
    ]
    whole = [each or [] for each in lists]
    # Each value begins with its side once more.
    items = fill(pa.array([data[1:] for data in chain.from_iterable(whole)], pa.binary()))
    *starts, end = accumulate(map(len, whole), initial=0)
    marked = [None if each is None else at for each, at in zip(lists, starts, strict=True)]
    kind = pa.list_(pa.field("element", items.type))
    return pa.ListArray.from_arrays(pa.array([*marked, end], pa.int32()), items, type=kind)
