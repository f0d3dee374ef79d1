"""The names of the fields of a JSON value, without its values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def shape(value: Any) -> Any:
    """The fields of objects, and the different shapes of the items of a list.

    Fields that are named by a task or a partition are one field each, whatever their number.

    >>> shape({"b": [1, 2], "a": [{"x": None}, {"x": 1}, {"y": 1}], "0_1": {"in-3": 7}})
    {'TASK': {'PARTITION': ''}, 'a': [{'x': ''}, {'y': ''}], 'b': ['']}
    """
    if isinstance(value, Mapping):
        return dict(sorted((_field(name), shape(one)) for name, one in value.items()))
    if isinstance(value, list):
        shapes: list[Any] = []
        for one in map(shape, value):
            if one not in shapes:
                shapes.append(one)
        return shapes
    return ""


def _field(name: str) -> str:
    if re.fullmatch(r"\d+_\d+", name):
        return "TASK"
    return re.sub(r"^.+-\d+$", "PARTITION", name)
