"""Avro, with a plain schema or through a schema registry.

With a plain schema the bytes are the Avro body alone, and writer and reader must have the same
schema; :mod:`logstate.serdes.avro_single_object` adds its fingerprint. With a registry they are
framed as Confluent's serializers do it::

    0x00 | 4 bytes schema id, big-endian | Avro body        written and read
    0x01 | 16 bytes schema GUID          | Avro body        read only

Every framed record names the schema it was written with, and the serde resolves it into the
declared one, so a store or a topic may hold records of many versions. The newer framing that keeps
the id in a record header is refused, because a serde does not see headers.

Schemas are registered at the first record under ``<topic>-key`` or ``<topic>-value``; with
``auto_register=False`` they are looked up there and have to exist.

Errors never contain the value: keys and values do not belong in logs.
"""

from __future__ import annotations

import datetime
import decimal
import io
import struct
import sys
import types
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from logstate.contracts.error_text import printable, text_of, type_name
from logstate.contracts.errors import SerdeError
from logstate.contracts.serde import Deserializer, Serde, Serializer
from logstate.registry.client import registry_of
from logstate.registry.schema_ids import REMEDY, SchemaIds, Subjects
from logstate.registry.schema_registry import RegisteredSchema, Registry, referenced_schemas
from logstate.serdes.avro_damage import (
    BOUNDED_DECIMAL,
    bounded_decimal,
    empty_items_check,
    int32_check,
    strict_indices,
    varint_check,
)
from logstate.serdes.avro_fit import fit_check
from logstate.serdes.avro_misfit import misfit_of
from logstate.serdes.avro_schema import (
    NativeDefaults,
    is_lossless,
    is_recursive,
    schema_and_text,
    schema_name,
    self_contained,
)
from logstate.serdes.immutability import is_immutable
from logstate.serdes.json_schema import described_type
from logstate.serdes.json_serde import changed_value_error, not_readable
from logstate.serdes.round_trip import difference

try:
    import fastavro
    import fastavro.read
    import fastavro.schema
    from fastavro import _read_py
    from fastavro._read_py import schemaless_reader as read_in_python
    from fastavro.validation import ValidationError, validate
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("Avro needs fastavro: pip install 'logstate[avro]'.") from error

for _readers in (fastavro.read.LOGICAL_READERS, vars(_read_py)["LOGICAL_READERS"]):
    _readers[f"bytes-{BOUNDED_DECIMAL}"] = bounded_decimal(_readers["bytes-decimal"])

T = TypeVar("T")
Parsed = Any  # What fastavro.parse_schema returns.

_FRAMED = "It begins like a record framed with a schema id: is registry= missing?"
_SAME_SCHEMA = "With a plain schema, writer and reader need the very same one."
_NO_SCHEMA = (
    "avro(registry=...) without a schema writes with the newest one of the subject, and has none to"
    " register. Give the schema, avro(schema, registry=...), which registers it with the first"
    " record; or register one under this subject before the application starts"
)
_FRAME = struct.Struct(">BI")
# Some 2,000 levels of a recursive schema, a byte or more each, overflow the C stack of the compiled
# reader. Longer records of such schemas are read in Python, which raises RecursionError instead.
_MAX_NATIVE_BYTES = 512
MAX_EMPTY_ITEMS = 100_000
# fastavro takes and returns these unchanged; msgspec must not turn them into text.
_NATIVE_TYPES = (
    bytes,
    bytearray,
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    uuid.UUID,
)


class AvroSerde(Serde[T]):
    r"""Objects as Avro.

    - ``schema``: JSON text, a dict, or a primitive's name. None, with a registry only: records are
      written with the newest schema of the subject and read with the schema of their writer.
    - ``registry``: a URL (``mock://name`` is shared inside the process and needs no server), a
      mapping with the settings of Confluent's client, or an object with the methods of
      ``logstate.registry.schema_registry.Registry``. None: the bare body with a fixed schema.
    - ``type_``: dict, or the msgspec.Struct or dataclass to convert records into.
    - ``auto_register``: whether writing may add a schema to the registry.
    - ``branch_names``: read a record of a union with several records as ``(full name, dict)``,
      which writing always accepts. Without it, a dict that has the fields of two of them cannot be
      written back, because its branch is unknown.
    - ``max_empty_items``: how many items without bytes (null, an empty record) the arrays of a
      record may have; a count of five bytes could mean billions. More are refused before they are
      read.

    Raises SerdeError for an invalid schema, ConfigError for an unusable registry setting. The
    callables raise SerdeError for a value that does not have the types of the schema, with the path
    of the field (values are not truncated and get no time zone), and for bytes that do not decode;
    RegistryError while the registry is unavailable.

    >>> clicks = AvroSerde({"type": "record", "name": "Click", "fields": [
    ...     {"name": "page", "type": "string"}, {"name": "at", "type": "long"}]})
    >>> data = clicks.serializer("clicks", False)({"page": "home", "at": 3})
    >>> data
    b'\x08home\x06'
    >>> clicks.deserializer("clicks", False)(data)
    {'page': 'home', 'at': 3}
    """

    def __init__(
        self,
        schema: str | Mapping[str, Any] | list[Any] | None,
        *,
        registry: str | Mapping[str, Any] | Registry | None = None,
        type_: type[T] | Any = dict,
        auto_register: bool = True,
        branch_names: bool = False,
        max_empty_items: int = MAX_EMPTY_ITEMS,
    ) -> None:
        if branch_names and type_ not in (dict, Any):
            raise SerdeError(
                "branch_names=True returns (name, dict), which cannot be converted into "
                f"{getattr(type_, '__name__', type_)}: leave out type=, or branch_names="
            )
        if schema is None and registry is None:
            raise SerdeError("Avro needs a schema, or a registry to find schemas in, or both.")
        self.type = type_
        self.auto_register = auto_register
        self.branch_names = branch_names
        self.max_empty_items = max_empty_items
        self.schema: Any = None
        self._text = ""
        self._parsed: Parsed = None
        if schema is not None:
            self.schema, self._text = schema_and_text(schema)
            self._parsed = parse(self.schema, {})
            self.immutable = is_lossless(self.schema) and is_immutable(type_)
        self.registry = None if registry is None else registry_of(registry)
        self._ids = SchemaIds(self._reader_of)
        self._subjects = Subjects(self._schema_to_write, _NO_SCHEMA if schema is None else REMEDY)

    def serializer(self, topic: str, is_key: bool) -> Serializer[T]:
        if self.registry is None:
            return writer_of(self._parsed, b"", self.type, is_key=is_key)
        write: Serializer[T] | None = None

        def serialize(value: T) -> bytes:
            nonlocal write
            if write is None:  # Connect to the registry only at the first record.
                schema_id, parsed = self._subjects.bind(topic, is_key)
                write = writer_of(parsed, _FRAME.pack(0, schema_id), self.type, is_key=is_key)
            return write(value)

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[T]:
        if self.registry is None:
            read = reader_of(
                self._parsed, None, self.type, 0, named=self.branch_names,
                max_empty_items=self.max_empty_items,
            )  # fmt: skip

            def deserialize_plain(data: bytes) -> T:
                try:
                    return read(data)  # type: ignore[no-any-return]
                except SerdeError as error:
                    hint = _FRAMED if data[:1] == b"\x00" and len(data) > 5 else _SAME_SCHEMA
                    raise SerdeError(f"{error} {hint}") from None

            return deserialize_plain
        found = self._ids.found
        unpack = _FRAME.unpack_from

        def deserialize(data: bytes) -> T:
            if len(data) < 5 or data[0] != 0:
                return self._read_unusual(data)
            schema_id = unpack(data)[1]
            read = found.get(schema_id) or self._ids.get(schema_id)
            return read(data)  # type: ignore[no-any-return]

        return deserialize

    def register(self, topic: str, is_key: bool) -> int:
        """Register the schema for ``topic`` now instead of at the first record; return its id."""
        if self.registry is None:
            raise SerdeError("This Avro serde has no registry to register its schema in.")
        return self._subjects.bind(topic, is_key)[0]

    def describe(self) -> dict[str, Any]:
        return {
            "format": "avro",
            "schema": self.schema,
            "framing": "none" if self.registry is None else "confluent",
            "registry": None if self.registry is None else self.registry.shown_url,
            **({} if self.type in (dict, Any) else {"type": described_type(self.type)}),
        }

    def equality_key(self) -> Any:
        # As JSON, where 1 and true differ: as defaults they are not equal.
        schema = msgspec.json.encode(self.schema, order="sorted")
        options = self.auto_register, self.branch_names, self.max_empty_items
        return schema, self._text if self.registry else "", self.registry, self.type, options

    def _schema_to_write(self, subject: str) -> tuple[int, Parsed]:
        """Return the id and the schema to write with."""
        registry = self.registry
        assert registry is not None
        if self.schema is None:
            schema_id, registered = registry.latest(subject)
            return schema_id, _parse_registered(registry, registered)
        ask = registry.register if self.auto_register else registry.lookup
        return ask(subject, self._text), self._parsed

    def _reader_of(self, schema_id: int | uuid.UUID) -> Callable[[bytes], Any]:
        assert self.registry is not None
        registered = self.registry.fetch(schema_id)
        writer = _parse_registered(self.registry, registered)
        # Resolving costs twice as much as reading, so it is left out where the schemas are equal.
        into = None if self._parsed is None or writer == self._parsed else self._parsed
        name = f" (written with schema id {schema_id})"
        start = 5 if isinstance(schema_id, int) else 17
        return reader_of(
            writer, into, self.type, start, name, named=self.branch_names,
            max_empty_items=self.max_empty_items,
        )  # fmt: skip

    def _read_unusual(self, data: bytes) -> T:
        if len(data) >= 17 and data[0] == 1:
            return self._ids.get(uuid.UUID(bytes=data[1:17]))(data)  # type: ignore[no-any-return]
        raise SerdeError(
            f"{len(data)} bytes that do not begin with a schema id: the first byte is 0 before a "
            f"4-byte id, found {data[:1].hex() or 'nothing'}. Was the record written without a "
            "registry (then give avro(schema) alone), as JSON, or with the id in a record header "
            "(not supported: let the producer put it in front of the value)?"
        )


def parse(schema: Any, named: dict[str, Any]) -> Parsed:
    """Parse with the types in ``named``; raise SerdeError for an invalid schema."""
    try:
        return fastavro.parse_schema(schema, named_schemas=named)
    except Exception as error:  # Its errors for malformed schemas have no common class.
        raise SerdeError(
            f"The Avro schema is not valid: {type(error).__name__}: {text_of(error)}."
            " A record needs type, "
            "name and fields; a field needs name and type; named types come before their use."
        ) from error


def schema_fingerprint(schema: Any) -> bytes:
    """Return the 8 bytes that name a schema: CRC-64-AVRO of its canonical form, little-endian.

    >>> schema_fingerprint("int").hex()
    '8f5c393f1ad57572'
    """
    canonical = fastavro.schema.to_parsing_canonical_form(parse(schema, {}))
    return bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))


def _parse_registered(registry: Registry, schema: RegisteredSchema) -> Parsed:
    named: dict[str, Any] = {}
    for text in referenced_schemas(registry, schema):
        parse(schema_and_text(text)[0], named)
    parsed = parse(schema_and_text(schema.text)[0], named)
    # An undefined name hides the type behind it from the checks of values, and, in a union at the
    # top level (as for a topic with several record types), from the library too.
    return parse(self_contained(parsed, named), {}) if schema.references else parsed


def _with_native_defaults(parsed: Parsed, *, branch_names: bool, is_read: bool) -> Parsed:
    """Return the schema with its defaults as values, for a reader or writer to fill in."""
    if parsed is None:
        return None
    copy = NativeDefaults(parsed, _read_leaf, branch_names=branch_names, is_read=is_read)
    return copy.of_whole(parsed)


def _read_leaf(schema: Any, value: Any) -> Any:
    """Return the value that reading returns for a value written without its logical type."""
    plain = {part: given for part, given in schema.items() if part != "logicalType"}
    data = io.BytesIO()
    fastavro.schemaless_writer(data, plain, value)
    data.seek(0)
    return fastavro.schemaless_reader(data, schema, None)


def writer_of(parsed: Parsed, prefix: bytes, type_: Any, *, is_key: bool) -> Serializer[Any]:
    """Return a function that writes a value with a schema, after the bytes of ``prefix``."""
    write = fastavro.schemaless_writer
    filled = _with_native_defaults(parsed, branch_names=True, is_read=False)
    check = fit_check(parsed)
    read_back = reader_of(parsed, None, dict, len(prefix)) if is_recursive(parsed) else None
    unconverted = type_ in (dict, Any)

    def serialize(value: Any) -> bytes:
        out = io.BytesIO()
        out.write(prefix)
        given = value
        if not unconverted:
            value = msgspec.to_builtins(value, builtin_types=_NATIVE_TYPES)
        if is_key:
            value = _in_order(value)
        try:
            # Strict: a field that the schema does not have would be dropped silently.
            write(out, filled, value, strict_allow_default=True)
        except Exception:  # noqa: BLE001  it raises whatever the value's own methods raise
            # Without the cause: fastavro's messages quote the value.
            raise _describe_misfit(value, filled, check) from None
        check(value)
        if not unconverted:
            declared = f"avro(type={type_.__name__})"
            try:
                read = msgspec.convert(value, type_, builtin_types=_NATIVE_TYPES)
            except Exception as error:  # noqa: BLE001  msgspec's, or what a __post_init__ raises
                raise not_readable(declared, error) from None
            found = difference(given, read)
            if found is not None:
                raise changed_value_error(declared, found)
        data = out.getvalue()
        if read_back is not None and len(data) > _MAX_NATIVE_BYTES:
            read_back(data)  # Raises if it is nested too deeply to be read again.
        return data

    return serialize


def _in_order(value: Any) -> Any:
    """Return the value with the entries of maps sorted by name: equal keys must be equal bytes.

    Fields of records are written in the schema's order anyway.
    """
    if type(value) is dict:
        entries = sorted(value.items()) if all(type(key) is str for key in value) else value.items()
        return {name: _in_order(one) for name, one in entries}
    if type(value) is list or type(value) is tuple:
        return type(value)(map(_in_order, value))
    return value


def reader_of(
    writer: Parsed,
    into: Parsed,
    type_: Any,
    start: int,
    name: str = "",
    *,
    named: bool = False,
    max_empty_items: int = MAX_EMPTY_ITEMS,
) -> Callable[[bytes], Any]:
    """Return a function that reads the bytes from ``start`` and resolves them into ``into``."""
    fast, safe = fastavro.schemaless_reader, read_in_python
    max_fast_bytes = _MAX_NATIVE_BYTES if is_recursive(writer) else sys.maxsize
    unconverted = type_ in (dict, Any)
    strict = strict_indices(writer)
    check_empty_items = empty_items_check(writer, max_empty_items)
    check_varints, check_int32 = varint_check(writer), int32_check(into or writer)
    filled = _with_native_defaults(into, branch_names=named, is_read=True)

    def deserialize(data: bytes) -> Any:
        if check_empty_items is not None:
            check_empty_items(data, start)
        source = io.BytesIO(data)
        source.seek(start)
        read = fast if len(data) <= max_fast_bytes else safe
        try:
            value = read(source, strict, filled, named, named)
        except Exception as error:
            raise SerdeError(
                f"{len(data)} bytes do not decode as Avro {schema_name(into or writer)}{name}: "
                f"{type(error).__name__}: {text_of(error)}."
            ) from error
        if source.tell() != len(data):
            raise SerdeError(
                f"Avro {schema_name(writer)}{name} ends after {source.tell()} of {len(data)} "
                "bytes: the record was written with another schema."
            )
        check_varints(data, start)
        if check_int32 is not None:
            check_int32(value, schema_name(into or writer))
        return value if unconverted else msgspec.convert(value, type_, builtin_types=_NATIVE_TYPES)

    return deserialize


def _describe_misfit(value: Any, parsed: Parsed, check: Callable[[Any], None]) -> SerdeError:
    """Find the field that does not fit by validating again, which is too slow for every record."""
    found = misfit_of(value, parsed)
    if found is not None:
        detail = printable(f"{schema_name(parsed)}{found[0]} {found[1]}")
        return SerdeError(f"The value does not fit the Avro schema {schema_name(parsed)}: {detail}")
    where = f"the value is {type_name(value)}, which the schema cannot hold"
    try:
        validate(value, parsed, raise_errors=True)
        check(value)
    except ValidationError as error:
        where = "; ".join(map(_mismatch, error.errors))
    except SerdeError as error:  # it names the field, for example a Decimal with too many digits
        return error
    except Exception:  # noqa: BLE001  the validator trips over what the writer tripped over
        try:
            check(value)
        except SerdeError as error:
            return error
    return SerdeError(
        f"The value does not fit the Avro schema {schema_name(parsed)}: {where}. Change the "
        "value, or the schema (a new field needs a default)."
    )


def _mismatch(found: Any) -> str:
    where, expected = found.field or "the value", schema_name(found.schema)
    if found.datum is None:
        return f"{where} is missing or None, expected {expected}"
    if expected in ("int", "long") and type(found.datum) is int:
        return f"{where} is a number out of range for {expected}"
    return f"{where} is {type_name(found.datum)}, expected {expected}"


class _CallableModule(types.ModuleType):
    """A module that can be called: importing ``logstate.serdes.avro`` puts it where the public
    function ``avro`` was, so a call of the module calls the function.
    """

    def __call__(self, *arguments: Any, **options: Any) -> AvroSerde[Any]:
        # By its name, because it imports this module.
        found = sys.modules["logstate.serdes.built_in"].avro(*arguments, **options)
        return cast("AvroSerde[Any]", found)


sys.modules[__name__].__class__ = _CallableModule
