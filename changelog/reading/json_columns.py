"""JSON documents into Arrow columns, all rows of a batch together.

How it works: of a column's type a class is made that has its fields and no others, documents are
decoded into it, and each field of all rows becomes an Arrow array. No dict is made on the way. What
such a class does not take, a number in a field of texts for example, is an error here; the caller
then goes row by row, which knows what to do or what to say.

Invariants: a document that is taken here gives what it gives row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from logstate.changelog.reading.column_parts import STRING, Part
from logstate.changelog.reading.json_values import json_decoder

#: what a default may be: classes share it between their rows
_IMMUTABLE = (int, float, str, bool)


def json_columns(part: Part) -> Callable[[pa.Array], pa.Array]:
    """Return a function that converts documents to a column; null documents stay null.

    >>> from logstate.changelog.reading.column_parts import struct_part
    >>> from logstate.changelog.reading.json_values import SCALARS
    >>> row = struct_part({"n": SCALARS["integer"], "s": SCALARS["string"]}, {"s": "x"})
    >>> fill = json_columns(row)
    >>> fill(pa.array([b'{"n": 1}', None], pa.binary())).to_pylist()
    [{'n': 1, 's': 'x'}, None]
    """
    decode = json_decoder(part, native_type(part)).decode

    def fill(data: pa.Array) -> pa.Array:
        documents = data.to_pylist()
        if data.null_count:
            return _array_of(part, [None if one is None else decode(one) for one in documents])
        return _array_of(part, list(map(decode, documents)))

    return fill


def native_type(part: Part) -> Any:
    """The class that documents of this part are decoded into; None is always one of its values."""
    if part.fields is not None:
        kinds = {name: native_type(each) for name, each in part.fields.items()}
        fields = [
            (f"f{n}", kind, _default(part.defaults.get(name), kind))
            for n, (name, kind) in enumerate(kinds.items())
        ]
        names = {f"f{n}": name for n, name in enumerate(part.fields)}
        return msgspec.defstruct("Row", fields, rename=names, gc=False) | None
    if part.item is not None:
        item = native_type(part.item)
        kind: Any = dict[str, item] if pa.types.is_map(part.arrow) else list[item]  # type: ignore[valid-type]
        return kind | None
    return Any if part.native is None else part.native | None


def _default(value: Any, kind: Any) -> Any:
    """Return the value of a missing field: the default, converted like a field of a document."""
    with suppress(msgspec.ValidationError):  # an unsuitable default is refused row by row
        value = msgspec.convert(value, kind)
    if value is None or isinstance(value, _IMMUTABLE):
        return value
    return msgspec.field(default_factory=lambda: value)  # read and never changed


def _array_of(part: Part, values: Sequence[Any]) -> pa.Array:
    if part.fields is not None:
        return _structs(part, part.fields, values)
    if part.item is not None:
        make = _maps if pa.types.is_map(part.arrow) else _lists
        return make(part, part.item, values)
    if part.shape is not None and part.native is None:
        return pa.array(map(part.shape, values), part.arrow, size=len(values))
    return pa.array(values, part.arrow)


def _structs(part: Part, fields: Any, values: Sequence[Any]) -> pa.Array:
    absent = [value is None for value in values]
    mask = pa.array(absent) if any(absent) else None
    columns = []
    for n, each in enumerate(fields.values()):
        read = attrgetter(f"f{n}")
        if mask is None:
            columns.append(_array_of(each, list(map(read, values))))
        else:
            columns.append(_array_of(each, [None if v is None else read(v) for v in values]))
    names = [part.arrow.field(n) for n in range(part.arrow.num_fields)]
    return pa.StructArray.from_arrays(columns, fields=names, mask=mask)


def _lists(part: Part, item: Part, values: Sequence[Any]) -> pa.Array:
    whole = [value or () for value in values]
    items = _array_of(item, list(chain.from_iterable(whole)))
    return pa.ListArray.from_arrays(_offsets(values, whole), items, type=part.arrow)


def _maps(part: Part, item: Part, values: Sequence[Any]) -> pa.Array:
    whole: list[dict[str, Any]] = [value or {} for value in values]
    keys = pa.array(chain.from_iterable(whole), STRING)
    items = _array_of(item, list(chain.from_iterable(value.values() for value in whole)))
    return pa.MapArray.from_arrays(_offsets(values, whole), keys, items, type=part.arrow)


def _offsets(values: Sequence[Any], whole: Sequence[Any]) -> pa.Array:
    """Return where each value begins, and where the last one ends; None for a null value."""
    *starts, end = accumulate(map(len, whole), initial=0)
    marked = [None if value is None else at for value, at in zip(values, starts, strict=True)]
    return pa.array([*marked, end], pa.int32())
