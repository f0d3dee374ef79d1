"""Avro in single-object encoding, where each record names its schema without a registry.

The Avro specification (*Single-object encoding*) puts 10 bytes in front of the body::

    0xC3 0x01 | 8 bytes CRC-64-AVRO of the schema's canonical form, little-endian | Avro body

The reader needs the schema of every fingerprint, so the serde is given all schemas that rows may
have. Java's ``BinaryMessageEncoder`` and ``BinaryMessageDecoder`` write and read the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from logstate.contracts.errors import SerdeError
from logstate.contracts.formats import SINGLE_OBJECT
from logstate.contracts.serde import Deserializer, Serializer
from logstate.serdes.avro import (
    MAX_EMPTY_ITEMS,
    AvroSerde,
    parse,
    reader_of,
    schema_fingerprint,
    writer_of,
)
from logstate.serdes.avro_schema import schema_and_text, schema_name

T = TypeVar("T")

_MARKER: Final = b"\xc3\x01"
_HEADER_BYTES: Final = 10

_NO_KEY = (
    "avro(single_object=True) cannot write keys: after a change of the schema, equal keys would"
    " have different bytes, so rows would not be found and partitions would differ. Use"
    " avro(schema) for the key"
)


class SingleObjectAvroSerde(AvroSerde[T]):
    r"""Objects as Avro in single-object encoding.

    Writes with ``schema``; reads rows of ``schema`` and of every schema in ``also_read``, and
    resolves them into ``schema`` by Avro's rules. The other parameters are those of ``AvroSerde``.

    Raises SerdeError for an invalid schema and for keys. The deserializer raises SerdeError for
    bytes without the header, for a fingerprint of another schema, and for a row that Avro's rules
    do not resolve. A fingerprint contains neither logical types nor defaults: if two schemas differ
    in nothing else, rows of both are read as the first one in (``schema``, ``also_read``).

    >>> before = {"type": "record", "name": "Click", "fields": [{"name": "page", "type": "string"}]}
    >>> after = {**before, "fields": [*before["fields"],
    ...     {"name": "at", "type": "long", "default": 0}]}
    >>> row = SingleObjectAvroSerde(before).serializer("clicks", False)({"page": "home"})
    >>> row
    b'\xc3\x01pr\\M\xc9~\xcef\x08home'
    >>> SingleObjectAvroSerde(after, also_read=[before]).deserializer("clicks", False)(row)
    {'page': 'home', 'at': 0}
    """

    def __init__(
        self,
        schema: str | Mapping[str, Any] | list[Any],
        *,
        also_read: Iterable[str | Mapping[str, Any] | list[Any]] = (),
        type_: type[T] | Any = dict,
        branch_names: bool = False,
        max_empty_items: int = MAX_EMPTY_ITEMS,
    ) -> None:
        super().__init__(
            schema, type_=type_, branch_names=branch_names, max_empty_items=max_empty_items
        )
        self.also_read = [schema_and_text(one)[0] for one in also_read]
        self._header = _MARKER + schema_fingerprint(self.schema)
        self._readers: dict[bytes, Callable[[bytes], Any]] = {}
        for one in (self.schema, *self.also_read):
            name = schema_fingerprint(one)
            self._readers.setdefault(_MARKER + name, self._reader_of_schema(one, name))

    def serializer(self, topic: str, is_key: bool) -> Serializer[T]:
        if is_key:
            raise SerdeError(_NO_KEY)
        return writer_of(parse(self.schema, {}), self._header, self.type, is_key=False)

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[T]:
        if is_key:
            raise SerdeError(_NO_KEY)
        readers = self._readers

        def deserialize(data: bytes) -> T:
            read = readers.get(bytes(data[:_HEADER_BYTES]))
            if read is None:
                self._refuse(data)
            return read(data)  # type: ignore[no-any-return]

        return deserialize

    def describe(self) -> dict[str, Any]:
        described = {**super().describe(), "framing": SINGLE_OBJECT}
        return described | ({"also_read": self.also_read} if self.also_read else {})

    def equality_key(self) -> Any:
        return super().equality_key(), msgspec.json.encode(self.also_read, order="sorted")

    def _reader_of_schema(self, schema: Any, name: bytes) -> Callable[[bytes], Any]:
        writer, declared = parse(schema, {}), parse(self.schema, {})
        # Resolving costs twice as much as reading, so it is left out where the schemas are equal.
        return reader_of(
            writer,
            None if writer == declared else declared,
            self.type,
            _HEADER_BYTES,
            f" (written with the schema of fingerprint {name.hex()})",
            named=self.branch_names,
            max_empty_items=self.max_empty_items,
        )

    def _refuse(self, data: bytes) -> NoReturn:
        if len(data) < _HEADER_BYTES or data[:2] != _MARKER:
            raise SerdeError(
                f"{len(data)} bytes that do not begin with c301 and a schema's fingerprint, found "
                f"{data[:2].hex() or 'nothing'}. Was the record written without single_object=True,"
                " or with a registry?"
            )
        known = ", ".join(one[2:].hex() for one in self._readers)
        raise SerdeError(
            f"{len(data)} bytes of the schema with the fingerprint {data[2:_HEADER_BYTES].hex()},"
            f" which is none of those that Avro {schema_name(self._parsed)} reads ({known}). Add"
            " the schema that the record was written with to also_read="
        )


def described_avro(description: Mapping[str, Any], registry: Mapping[str, str]) -> AvroSerde[Any]:
    """Return the serde that a description stands for, with dicts as records.

    ``registry`` is configuration of the client; its ``url`` wins over the described one.
    """
    framing = description.get("framing", "none")
    if framing == SINGLE_OBJECT:
        return SingleObjectAvroSerde(
            description["schema"], also_read=description.get("also_read", ())
        )
    config = None if framing == "none" else {"url": description.get("registry"), **registry}
    return AvroSerde(description["schema"], registry=config)
