r"""Refusing damaged Avro bytes that the fast reader accepts.

*Indices.* An enum is written as the index of its symbol, a union's value follows the index of its
branch. The reader uses both as indices of a Python list, where -1 is the last element, so it reads
damaged bytes as a valid record that every other implementation refuses. The value does not show the
index, so it cannot be checked afterwards. Instead, the reader gets a schema whose lists have no
negative elements: symbols as a dictionary, branches as a list that is looked up like one.

>>> parsed = {"type": "enum", "name": "Size", "symbols": ["S", "M"]}
>>> strict_indices(parsed)["symbols"]
{0: 'S', 1: 'M'}

*Numbers.* A long takes at most ten bytes, and the tenth only holds one bit. The reader does not
check that: it reads longer damaged bytes as some other number. Checking every record would cost
more than reading it, so only records with ten such bytes in a row are checked; apart from damaged
records, only text beyond ASCII has those.

>>> check = varint_check({"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]})
>>> check(b"\x81" * 9 + b"\x01", 0)
>>> check(b"\x81" * 13 + b"\x01", 0)
Traceback (most recent call last):
...
logstate.contracts.errors.SerdeError: a number of more than ten bytes or 64 bits, which no writer
makes
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from logstate.contracts.errors import SerdeError
from logstate.serdes.avro_schema import (
    PRIMITIVES,
    AvroWalk,
    ParsedCopy,
    Schema,
)

#: skips one value: bytes, position -> position after it
_Skip: TypeAlias = "Callable[[bytes, int], int]"
Check = Callable[[Any, str], None]

_SUSPICIOUS = re.compile(rb"[\x80-\xff]{9}[^\x00\x01]")
_FIXED_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_LONG_BYTES = 10
#: the logical type of decimals in the reader's copy of a schema
BOUNDED_DECIMAL = "logstate-decimal"
_MAX_BYTES = "logstate:max_bytes"
#: some writers pad a decimal with bytes of its sign
_DECIMAL_PADDING = 16
_INT32 = range(-(2**31), 2**31)


def strict_indices(schema: Any) -> Any:
    """Return a copy of a parsed schema that only the reader may use.

    The branches of a union at the top stay a plain list: the reader parses it again each time.
    """
    copy = _StrictCopy()
    if isinstance(schema, list):
        return [copy.of_whole(branch) for branch in schema]
    return copy.of_whole(schema)


class _StrictCopy(ParsedCopy):
    def union(self, branches: list[Any]) -> list[Any]:
        return _branches(branches)

    def changed(self, copy: dict[str, Any], original: Mapping[str, Any]) -> None:
        if "symbols" in original:
            copy["symbols"] = dict(enumerate(original["symbols"]))
        precision = original.get("precision")
        is_decimal = original.get("type") == "bytes" and original.get("logicalType") == "decimal"
        if is_decimal and isinstance(precision, int):
            copy["logicalType"] = BOUNDED_DECIMAL
            copy[_MAX_BYTES] = _size_of_decimal(precision) + _DECIMAL_PADDING


def bounded_decimal(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reader of decimals that refuses bytes far beyond the precision before reading them.

    Reading a decimal takes time that grows with the square of its bytes: 100 kB take seconds.
    """

    def read_bounded(data: bytes, writer_schema: Any = None, reader_schema: Any = None) -> Any:
        limit = writer_schema[_MAX_BYTES]
        if len(data) > limit:
            raise SerdeError(
                f"a decimal of {len(data)} bytes, and its precision {writer_schema['precision']}"
                f" needs at most {limit - _DECIMAL_PADDING}"
            )
        return read(data, writer_schema, reader_schema)

    return read_bounded


def _size_of_decimal(precision: int) -> int:
    """Return the number of bytes of the largest number with so many digits, and its sign."""
    return int(precision * math.log2(10) + 1) // 8 + 1


def _branches(branches: list[Any]) -> list[Any]:
    """Return a list for iteration, a dictionary for indices, without a Python function in between.

    The compiled reader adds the length to a negative index before the lookup, so the length is 0.
    """
    look_up = dict(enumerate(branches)).__getitem__
    members = {"__getitem__": staticmethod(look_up), "__len__": lambda _: 0}
    return type("Branches", (list,), members)(branches)  # type: ignore[no-any-return]


class _LeastBytes(AvroWalk[int]):
    """The minimum number of bytes of a value; an array or a map ends with a byte."""

    def __init__(self) -> None:
        super().__init__()
        self.has_empty_items = False

    def leaf(self, schema: Mapping[str, Any]) -> int:
        return int(schema.get("size", _FIXED_BYTES.get(schema["type"], 1)))

    def record(self, name: str, fields: Callable[[], list[tuple[str, int]]]) -> int:
        self.named[name] = 1  # inside itself it follows an index or a count
        self.named[name] = sum(size for _, size in fields())
        return self.named[name]

    def array(self, item: int) -> int:
        self.has_empty_items |= item == 0
        return 1

    def map(self, value: int) -> int:
        return 1

    def union(self, branches: list[Any], parts: list[int]) -> int:
        return 1 + min(parts, default=0)


def empty_items_check(schema: Any, max_items: int) -> Callable[[bytes, int], None] | None:
    """Return a function that refuses more than ``max_items`` array items that take no bytes.

    Such items are null, a fixed of size 0, and records of these: a count of five bytes can mean
    billions of them. Return None if the schema has no such arrays; every other item takes a byte.
    """
    sizes = _LeastBytes()
    sizes.of(schema)
    if not sizes.has_empty_items:
        return None

    def check(data: bytes, start: int) -> None:
        try:
            _Skips([max_items]).of(schema)(data, start)  # a new one: it counts for one record
        except (IndexError, KeyError, RecursionError):
            return  # damaged bytes, which the reader refuses

    return check


def varint_check(schema: Any) -> Callable[[bytes, int], None]:
    """Return a function of a record's bytes and the start of its body; it raises SerdeError.

    ``schema`` is as the reader parsed it. Types that it names without a definition switch the check
    off. Bytes that do not decode at all are left to the reader.
    """
    skip = _Skips().of(schema)
    has_suspects = _SUSPICIOUS.search

    def check(data: bytes, start: int) -> None:
        if has_suspects(data, start) is not None:
            try:
                skip(data, start)
            except (IndexError, KeyError, RecursionError):
                return

    return check


def _long(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it."""
    number = 0
    for i in range(_LONG_BYTES):
        byte = data[at + i]
        number |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            if i == _LONG_BYTES - 1 and byte > 1:
                break
            return (number >> 1) ^ -(number & 1), at + i + 1
    raise SerdeError("a number of more than ten bytes or 64 bits, which no writer makes")


def _skip_long(data: bytes, at: int) -> int:
    return _long(data, at)[1]


def _skip_text(data: bytes, at: int) -> int:
    count, at = _long(data, at)
    return at + max(count, 0)


class _Skips(AvroWalk[_Skip]):
    def __init__(self, empty_items_left: list[int] | None = None) -> None:
        super().__init__()
        #: how many more items without bytes are allowed, in a list of one; None: any number
        self._left = empty_items_left

    def leaf(self, schema: Mapping[str, Any]) -> _Skip:
        kind = schema["type"]
        if kind in ("int", "long", "enum"):
            return _skip_long
        if kind in ("bytes", "string"):
            return _skip_text
        return _of_size(schema["size"] if kind == "fixed" else _FIXED_BYTES[kind])

    def record(self, name: str, fields: Callable[[], list[tuple[str, _Skip]]]) -> _Skip:
        found: list[_Skip] = []
        skip = self.named[name] = _of_record(found)
        found += [field for _, field in fields()]
        return skip

    def array(self, item: _Skip) -> _Skip:
        return _of_blocks([item], self._left)

    def map(self, value: _Skip) -> _Skip:
        return _of_blocks([_skip_text, value], self._left)

    def union(self, branches: list[Any], parts: list[_Skip]) -> _Skip:
        return _of_union(parts)

    def unknown(self, name: str) -> _Skip:
        def skip(_data: bytes, _at: int) -> int:
            raise KeyError(name)

        return skip


def _of_size(size: int) -> _Skip:
    return lambda _, at: at + size


def _of_record(fields: list[_Skip]) -> _Skip:
    def skip(data: bytes, at: int) -> int:
        for field in fields:
            at = field(data, at)
        return at

    return skip


def _of_union(branches: list[_Skip]) -> _Skip:
    def skip(data: bytes, at: int) -> int:
        index, at = _long(data, at)
        return branches[index](data, at)

    return skip


def _of_blocks(parts: list[_Skip], empty_items_left: list[int] | None) -> _Skip:
    def skip(data: bytes, at: int) -> int:
        while True:
            count, at = _long(data, at)
            if count == 0:
                return at
            if count < 0:  # followed by the block's size, for readers that skip it
                count, at = -count, _skip_long(data, at)
            for done in range(count):
                before = at
                for part in parts:
                    at = part(data, at)
                    if at > len(data):
                        raise IndexError(at)
                if at == before:  # the same holds for the rest: items of one type take no bytes
                    _count_empty(count - done, empty_items_left)
                    break

    return skip


def _count_empty(items: int, left: list[int] | None) -> None:
    if left is None:
        return
    left[0] -= items
    if left[0] < 0:
        raise SerdeError(
            "the arrays of the record have more items without bytes than the limit, one of them"
            f" {items}. If the writer means it, raise max_empty_items= of avro(...)"
        )


def int32_check(schema: Schema) -> Check | None:
    """Return a function that refuses values too large for the schema's ``int`` fields, or None.

    The fast writer would encode them as longs, which no other reader accepts. The function takes
    the value and a name for it. Unions other than "this or null" are left to the writer, which
    validates their branches itself.
    """
    return _Int32().of(schema)


class _Int32(AvroWalk["Check | None"]):
    def leaf(self, schema: Mapping[str, Any]) -> Check | None:
        return _check_int32 if schema["type"] == "int" else None

    def record(
        self, name: str, fields: Callable[[], list[tuple[str, Check | None]]]
    ) -> Check | None:
        return _record_check([(field, check) for field, check in fields() if check is not None])

    def array(self, item: Check | None) -> Check | None:
        return _item_check(item, lambda value: value)

    def map(self, value: Check | None) -> Check | None:
        return _item_check(value, lambda entries: entries.values())

    def union(self, branches: list[Schema], parts: list[Check | None]) -> Check | None:
        others = [part for branch, part in zip(branches, parts, strict=True) if branch != "null"]
        return _unless_none(others[0]) if len(others) == 1 else None

    def logical(
        self, schema: Mapping[str, Any], as_kind: Callable[[], Check | None]
    ) -> Check | None:
        return None if schema["type"] in PRIMITIVES else as_kind()


def _check_int32(value: Any, name: str) -> None:
    if isinstance(value, int) and value not in _INT32:
        raise SerdeError(
            f"{name} does not fit its Avro type: an int has 32 bits and the value needs more. "
            'Declare the field as "long".'
        )


def _unless_none(check: Check | None) -> Check | None:
    if check is None:
        return None

    def check_optional(value: Any, name: str) -> None:
        if value is not None:
            check(value, name)

    return check_optional


def _record_check(checks: list[tuple[str, Check]]) -> Check | None:
    if not checks:
        return None

    def check_fields(value: Any, name: str) -> None:
        for field, check in checks:
            if field in value:
                check(value[field], f"{name}.{field}")

    return check_fields


def _item_check(check: Check | None, items: Callable[[Any], Any]) -> Check | None:
    if check is None:
        return None

    def check_items(value: Any, name: str) -> None:
        for item in items(value):
            check(item, f"{name}[]")

    return check_items
