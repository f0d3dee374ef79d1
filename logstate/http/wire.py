"""The encoding of reads between instances: keys and values as their serdes write them.

Both sides have the same topology, so the decoded values equal those in the store, type for type.
Only the reads in this table are possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.errors import SerdeError
from logstate.contracts.indexes import IndexedBytes, index_named
from logstate.contracts.records import Windowed
from logstate.contracts.stores import (
    StoreSpec,
    ValueAndTimestamp,
    VersionedRecord,
    check_arguments,
)
from logstate.contracts.topic_names import changelog_topic


class ReadShape(NamedTuple):
    """The arguments and the result of a read."""

    #: leading arguments that are keys; the others are numbers, or elements of a key
    keys: int
    #: what a row begins with, if it returns rows; "" if it returns one value
    rows: str
    #: the one value is a number of rows, or a truth value, not a value of the store
    counts: bool = False
    #: arguments after the keys that are elements of the key, where the store has several
    elements: int = 0
    #: arguments after the first one, the name of an index, that are values of that index
    indexed: int = 0


READS = {
    "get": ReadShape(1, "", elements=1),
    "fetch": ReadShape(1, "key"),
    "fetch_range": ReadShape(1, "number"),
    "fetch_session": ReadShape(1, ""),
    "find_sessions": ReadShape(1, "key"),
    "versions": ReadShape(1, "value"),
    "range": ReadShape(2, "key"),
    "reverse_range": ReadShape(2, "key"),
    "all": ReadShape(0, "key"),
    "reverse_all": ReadShape(0, "key"),
    "by": ReadShape(0, "key", indexed=1),
    "by_range": ReadShape(0, "key", indexed=2),
    "approximate_num_entries": ReadShape(0, "", counts=True),
    "items": ReadShape(1, "element", elements=2),
    "values": ReadShape(1, "value", elements=2),
    "contains": ReadShape(1, "", counts=True, elements=1),
    "size": ReadShape(1, "", counts=True),
    "fetch_all": ReadShape(0, "key"),
    "fetch_key_range": ReadShape(2, "key"),
    "find_sessions_of_key_range": ReadShape(2, "key"),
}


#: parts of a row's key in a list or map, where a window has three
_KEY_AND_ELEMENT = 2


class StoreCodec:
    """Encodes and decodes arguments and results of the reads of one store."""

    def __init__(self, spec: StoreSpec, application_id: str) -> None:
        self._spec = spec
        topic = spec.source_topic or changelog_topic(application_id, spec.name)
        self._name = spec.name
        self._key_out = spec.key.serializer(topic, True)
        self._key_in = spec.key.deserializer(topic, True)
        self._value_out = spec.value.serializer(topic, False)
        self._value_in = spec.value.deserializer(topic, False)
        self._element_out, self._element_in = spec.bound_element(topic)
        #: rows begin with a key and an element
        self._has_pairs = kind_of(spec).element_name != ""

    def arguments_out(self, read: str, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Encode; raise StoreArgumentError for a key or a time of another type."""
        check_arguments(self._spec, self._key_out, read, arguments)
        if READS[read].indexed:
            one = index_named(self._name, self._spec.indexes, arguments[0])
            return _with_indexed(arguments, READS[read].indexed, one.bound)
        return self._decoded_arguments(read, arguments, self._key_out, self._element_out)

    def arguments_in(self, read: str, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Decode; raise SerdeError for bytes that are not a key."""
        if READS[read].indexed:
            return _with_indexed(arguments, READS[read].indexed, IndexedBytes)
        return self._decoded_arguments(read, arguments, self._decoded, self._element_in)

    def answer_out(self, read: str, answer: Any) -> Any:
        """Encode the result of a read that does not return rows."""
        return answer if READS[read].counts else self.value_out(answer)

    def answer_in(self, read: str, sent: Any) -> Any:
        """Decode the result of ``answer_out``."""
        return sent if READS[read].counts else self.value_in(sent)

    def value_out(self, value: Any) -> Any:
        """Encode one value; None stays None."""
        if value is None:
            return None
        if isinstance(value, ValueAndTimestamp | VersionedRecord):
            kind = "t" if isinstance(value, ValueAndTimestamp) else "v"
            return [kind, self._plain_out(value.value), *value[1:]]
        return ["", self._value_out(value)]

    def value_in(self, sent: Any) -> Any:
        """Decode the result of ``value_out``."""
        if sent is None:
            return None
        kind, value, *others = sent
        value = None if value is None else self._value_in(value)
        if kind == "t":
            return ValueAndTimestamp(value, *others)
        return VersionedRecord(value, *others) if kind == "v" else value

    def row_out(self, read: str, row: Any) -> Any:
        """Encode one row of a read."""
        first = READS[read].rows
        if first == "value":
            return self.value_out(row)
        left, value = row
        if first == "element":
            return [self._element_out(left), self.value_out(value)]
        if self._has_pairs:
            left = [self._key_out(left[0]), self._element_out(left[1])]
        elif isinstance(left, Windowed):
            left = [self._key_out(left.key), left.start_ms, left.end_ms]
        elif first == "key":
            left = self._key_out(left)
        return [left, self.value_out(value)]

    def row_in(self, read: str, sent: Any) -> Any:
        """Decode the result of ``row_out``."""
        first = READS[read].rows
        if first == "value":
            return self.value_in(sent)
        left, value = sent
        if first == "element":
            return self._element_in(left), self.value_in(value)
        if isinstance(left, list) and len(left) == _KEY_AND_ELEMENT:
            left = self._key_in(left[0]), self._element_in(left[1])
        elif isinstance(left, list):
            left = Windowed(self._key_in(left[0]), left[1], left[2])
        elif first == "key":
            left = self._key_in(left)
        return left, self.value_in(value)

    def _decoded_arguments(
        self,
        read: str,
        arguments: Sequence[Any],
        key: Callable[[Any], Any],
        element: Callable[[Any], Any],
    ) -> tuple[Any, ...]:
        keys, elements = READS[read].keys, READS[read].elements
        parts = [*[key] * keys, *[element] * elements]
        given = [
            one if one is None else convert(one)
            for one, convert in zip(arguments, parts, strict=False)
        ]
        return (*given, *arguments[len(given) :])

    def _plain_out(self, value: Any) -> bytes | None:
        return None if value is None else self._value_out(value)

    def _decoded(self, key: bytes) -> Any:
        try:
            return self._key_in(key)
        except Exception as exc:
            raise SerdeError(
                f"store {self._name!r}: the bytes {key!r:.100} are not a key of it:"
                f" {type(exc).__name__}: {exc}"
            ) from exc


def _with_indexed(
    arguments: Sequence[Any], count: int, convert: Callable[[Any], bytes]
) -> tuple[Any, ...]:
    """Convert the arguments behind the name of an index that are values of it; None stays None."""
    name, *rest = arguments
    values = [None if one is None else convert(one) for one in rest[:count]]
    return (name, *values, *rest[count:])
