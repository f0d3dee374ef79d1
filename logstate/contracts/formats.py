"""The formats in the descriptions of serdes, and the properties that follow from their names.

A new scalar is a row in this table. Code per type of object (a column in Arrow, an expression in
SQL, how a key is typed) is in other modules, by format or by type, and a test reports what is
missing there (`tests/unit/logstate/contracts/test_formats.py`): an unknown format would silently be
read as bytes, or be slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID


class ScalarFormat(NamedTuple):
    """A format whose bytes follow from its name: there is nothing else to declare."""

    name: str
    #: type of the objects
    type_: type[Any]
    #: an object as a user types it
    example: str
    #: whether equal objects always have equal bytes, unlike 0.0 and -0.0, and UUIDs in upper case
    is_equal_as_bytes: bool
    #: serialized keys have the order of the objects, or those below 0 come last
    order: Literal["of objects", "negative last"]
    #: expression of ``value``, an object of exactly the type: if true, encoding cannot fail
    encodes_surely: str
    #: of numbers: the format for `struct`
    layout: str = ""


_IDENTIFIER: Final = "7d444840-9dc0-11d1-b245-5ffdce74fad2"

SCALARS: Final[Mapping[str, ScalarFormat]] = {
    one.name: one
    for one in (
        ScalarFormat("string", str, "ada", True, "of objects", "value.isascii()"),
        ScalarFormat(
            "int64", int, "42", True, "negative last",
            f"{-(2**63)} <= value <= {2**63 - 1}", ">q",
        ),
        ScalarFormat(
            "int32", int, "42", True, "negative last",
            f"{-(2**31)} <= value <= {2**31 - 1}", ">i",
        ),
        ScalarFormat(
            "int16", int, "42", True, "negative last",
            f"{-(2**15)} <= value <= {2**15 - 1}", ">h",
        ),
        ScalarFormat("float64", float, "2.5", False, "negative last", "True", ">d"),
        ScalarFormat("float32", float, "2.5", False, "negative last", "False", ">f"),
        ScalarFormat("bytes", bytes, "0x00ff", True, "of objects", "True"),
        ScalarFormat("boolean", bool, "true", False, "of objects", "True"),
        ScalarFormat("uuid", UUID, _IDENTIFIER, False, "of objects", "True"),
        ScalarFormat("uuid_bytes", UUID, _IDENTIFIER, True, "of objects", "True"),
    )
}  # fmt: skip

#: a key with the id of a record behind it: 4 bytes length, key | id
KEY_AND_ID: Final = "key_and_id"

#: keys of timers: 8 bytes time | key
TIMER: Final = "timer"

#: keys of records that wait to be sorted: 8 bytes time | 8 bytes number | 1 byte (00: the record
#: has no key) | key
WAITING_RECORD: Final = "waiting_record"

#: bytes before the key in these formats
HEAD_BYTES: Final[Mapping[str, int]] = {TIMER: 8, WAITING_RECORD: 17}

#: parts whose bytes have the order of the values, see `logstate.serdes.ordered_serde`
ORDERED: Final = "ordered"

#: elements of one format, see `logstate.serdes.list_serde`
LIST: Final = "list"

#: the framing of Avro records that begin with the fingerprint of their schema
SINGLE_OBJECT: Final = "single-object"

#: formats whose bytes follow from a schema
WITH_SCHEMA: Final = frozenset({"json", "json_schema", "avro", "protobuf"})
