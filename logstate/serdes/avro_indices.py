"""Refusing Avro enums and unions whose index is negative.

An enum is written as the index of its symbol, a union's value behind the index of its branch. The
fast reader takes both straight to a Python list, where -1 is the last element: damaged bytes become
a good record, which every other implementation refuses. Looking at each index afterwards is not
possible, the value does not show it. So the reader is handed a schema whose lists have no negative
elements: symbols as a dictionary, branches as a list that is looked up like one.

>>> parsed = {"type": "enum", "name": "Size", "symbols": ["S", "M"], "__fastavro_parsed__": True}
>>> strict_indices(parsed)["symbols"]
{0: 'S', 1: 'M'}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMED_TYPES = "__named_schemas"


def strict_indices(schema: Any) -> Any:
    """A copy of a parsed schema for the reader, and for nothing else.

    A union at the top is left as it is: the reader parses it anew each time.
    """
    return _copy(schema, {}) if isinstance(schema, Mapping) else schema


def _copy(schema: Any, known: dict[int, Any]) -> Any:
    if id(schema) in known:
        return known[id(schema)]
    if isinstance(schema, list):
        return _branches([_copy(branch, known) for branch in schema])
    if not isinstance(schema, Mapping):
        return schema
    copy = known[id(schema)] = dict(schema)
    for part in ("type", "items", "values"):
        if part in copy:
            copy[part] = _copy(copy[part], known)
    if "fields" in copy:
        copy["fields"] = [_copy(field, known) for field in copy["fields"]]
    if "symbols" in copy:
        copy["symbols"] = dict(enumerate(copy["symbols"]))
    if _NAMED_TYPES in copy:
        named = copy[_NAMED_TYPES]
        copy[_NAMED_TYPES] = {name: _copy(part, known) for name, part in named.items()}
    return copy


def _branches(branches: list[Any]) -> list[Any]:
    """A list for iteration, a dictionary for indices, without a Python function in between.

    The compiled reader adds the length to a negative index before it asks: hence none is told.
    """
    look_up = dict(enumerate(branches)).__getitem__
    members = {"__getitem__": staticmethod(look_up), "__len__": lambda _: 0}
    return type("Branches", (list,), members)(branches)  # type: ignore[no-any-return]
