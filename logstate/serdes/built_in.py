"""The serdes to choose from, and how a declaration such as ``value=Click`` becomes one."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, TypeVar, Unpack, overload

from logstate.contracts.errors import SerdeError
from logstate.contracts.formats import SCALARS
from logstate.contracts.records import Windowed
from logstate.contracts.serde import Serde
from logstate.contracts.setting_rules import shown
from logstate.serdes.json_serde import json, json_array, json_object, json_of
from logstate.serdes.list_serde import ListSerde
from logstate.serdes.ordered_serde import OrderedSerde, ordered_of
from logstate.serdes.protobuf_schema import is_protobuf_message
from logstate.serdes.pydantic_serde import PydanticSerde, is_pydantic_model
from logstate.serdes.scalars import (
    SCALAR_SERDES,
    ScalarSerde,
    boolean,
    bytes_,
    float64,
    int64,
    string,
    void,
)
from logstate.serdes.windowed_serdes import SessionWindowedSerde, WindowedSerde

if typing.TYPE_CHECKING:
    from logstate.registry.schema_registry import Registry
    from logstate.serdes.avro import AvroSerde
    from logstate.serdes.json_schema_serde import JsonSchemaSerde
    from logstate.serdes.protobuf_serde import ProtobufSerde

K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")


_BY_NAME: dict[str, Serde[Any]] = {**SCALAR_SERDES, "json": json, "void": void}
_BY_TYPE: dict[Any, Serde[Any]] = {
    str: string,
    int: int64,
    float: float64,
    bytes: bytes_,
    bool: boolean,
    dict: json_object,
    list: json_array,
    object: json,
    Any: json,
}


def type_of(serde: Serde[Any]) -> Any:
    """Return the Python type that a serde was declared as; None if a type does not say it all.

    >>> type_of(string), type_of(json_of(list[int]))
    (<class 'str'>, list[int])
    """
    scalar = next((one for one, known in _BY_TYPE.items() if known is serde), None)
    if scalar is not None:
        return scalar
    return getattr(serde, "type", None) if serde.describe()["format"] == "json" else None


def equal_as_bytes(key: Serde[Any]) -> bool:
    """Return whether keys of a serde are equal as objects exactly when their bytes are equal.

    Two keys are the same exactly if their bytes are equal. JSON, Avro and similar formats can hold
    1, 1.0 and True, however deep in a tuple or a struct. Python treats 1, 1.0 and True as equal,
    and NaN as unequal to itself. So code that distinguishes keys as objects, above all a dict of
    rows, calls this first, and compares the bytes if the answer is False.

    >>> equal_as_bytes(int64), equal_as_bytes(float64), equal_as_bytes(json)
    (True, False, False)

    The serde itself decides, not its description: a user's serde may call its format "string" and
    write "A" and "a" as the same bytes.
    """
    known = SCALARS.get(key.name) if type(key) is ScalarSerde else None
    return known is not None and known.is_equal_as_bytes


class SizedWindows(typing.Protocol):
    """Windows that compute their own ends, such as ``logstate.Windows``."""

    size_ms: int
    varies: bool

    def end_of(self, start_ms: int) -> int: ...


class NearWindows(typing.Protocol):
    """``logstate.SlidingWindows``, whose windows are all as long as the time difference."""

    difference_ms: int


@overload
def windowed(
    inner: Serde[K] | type[K], size_ms: int | SizedWindows | NearWindows
) -> WindowedSerde[K]: ...
@overload
def windowed(inner: Any, size_ms: int | SizedWindows | NearWindows) -> WindowedSerde[Any]: ...
def windowed(inner: Any, size_ms: int | SizedWindows | NearWindows) -> WindowedSerde[Any]:
    """Return a serde for windowed keys: the inner key, then the 8-byte start of the window.

    >>> windowed(str, 10).serializer("t", True)(Windowed("a", 20, 30)).hex()
    '610000000000000014'

    ``size_ms`` is the size of the windows, or the windows themselves, which compute their ends:
    everything that ``windowed_by`` takes except sessions, whose keys are ``session_windowed``.
    Raises SerdeError for anything else.
    """
    key = serde_of(inner, what="the key inside the window")
    given: Any = size_ms
    length = getattr(given, "difference_ms", getattr(given, "size_ms", given))
    if isinstance(length, bool) or not isinstance(length, int) or isinstance(given, type):
        raise _no_windows(given)
    if length is given or hasattr(given, "difference_ms"):
        return WindowedSerde(key, length)
    end_of = getattr(given, "end_of", None)
    if end_of is None:  # the windows of a join have a width only
        raise _no_windows(given)
    return WindowedSerde(key, length, end_of=end_of if given.varies else None)


def _no_windows(given: object) -> SerdeError:
    if hasattr(given, "gap_ms"):
        return SerdeError(
            f"windowed() got {shown(given)}, and the end of a session is among the bytes of its"
            " key: sessions have no length. Give session_windowed(...) with the inner key alone"
        )
    return SerdeError(
        f"windowed() takes the length of the windows in ms, or the windows; got {shown(given)}."
        " Give TumblingWindows(size=...) or such, or a whole number"
    )


@overload
def session_windowed(inner: Serde[K] | type[K]) -> SessionWindowedSerde[K]: ...
@overload
def session_windowed(inner: Any) -> SessionWindowedSerde[Any]: ...
def session_windowed(inner: Any) -> SessionWindowedSerde[Any]:
    """Return a serde for keys of session windows: inner key, 8-byte end, 8-byte start.

    >>> from logstate.contracts.records import Windowed
    >>> serializer = session_windowed(str).serializer("counts", True)
    >>> serializer(Windowed("ada", 1, 2)).hex()
    '61646100000000000000020000000000000001'
    """
    return SessionWindowedSerde(serde_of(inner, what="the key inside the session"))


@overload
def ordered(type_: type[T], /) -> OrderedSerde[T]: ...
@overload
def ordered(first: type[K], second: type[T], /) -> OrderedSerde[tuple[K, T]]: ...
@overload
def ordered(first: type[K], second: type[T], third: type[V], /) -> OrderedSerde[tuple[K, T, V]]: ...
@overload
def ordered(*types: Any) -> OrderedSerde[Any]: ...
def ordered(*types: Any) -> OrderedSerde[Any]:
    """Return a serde for keys whose bytes have the order of their values.

    Of one type, such as ``ordered(int)``, or of several: ``ordered(str, int)`` has tuples of them,
    and ``ordered(Place)`` those of a ``NamedTuple``. The types are str, bytes, int (64 bits),
    float, bool, ``datetime``, ``date`` and ``UUID``.

    >>> from logstate import StreamsBuilder
    >>> from logstate.testing import TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> _ = builder.table("temperatures", key=ordered(str, int), value=float, store="celsius")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     for key in (("oslo", -5), ("oslo", 100), ("oslo", 20), ("rome", 7)):
    ...         driver.pipe("temperatures", key, 1.5)
    ...     store = driver.store("celsius")
    ...     [key for key, _ in store.range(("oslo", -5), ("oslo", 20))]
    ...     [key for key, _ in store.prefix_scan(("oslo",))]
    [('oslo', -5), ('oslo', 20)]
    [('oslo', -5), ('oslo', 20), ('oslo', 100)]

    Text is in the order of its code points, and False comes before True. A ``datetime`` needs a
    time zone and is read back in UTC. -0.0 is another key than 0.0 and comes before it; NaN is
    refused. A null part is refused. No Java serializer writes these bytes, so a JVM application
    cannot read such keys; where it has to, use the scalar serdes. Raises SerdeError for any other
    type.
    """
    return ordered_of(types)


@overload
def list_of(inner: Serde[T] | type[T]) -> ListSerde[T]: ...
@overload
def list_of(inner: Any) -> ListSerde[Any]: ...
def list_of(inner: Any) -> ListSerde[Any]:
    """Return a serde for lists in the bytes of Kafka's ``ListSerializer`` (KIP-466).

    ``inner`` is the type or the serde of the elements, which may be None. Java reads these lists
    with ``Serdes.ListSerde(ArrayList.class, inner)``. Declare ``list[int]`` for lists as JSON.

    >>> serializer = list_of("int32").serializer("scores", False)
    >>> serializer([1, None, -2]).hex()
    '0000000001000000010000000300000001fffffffe'

    Raises SerdeError when a value is written that is not a list or tuple, and when bytes are read
    that are not such a list.
    """
    return ListSerde(serde_of(inner, what="the elements of a list"))


class AvroOptions(TypedDict, total=False):
    """Options of ``avro`` that do not depend on the type of the values."""

    registry: str | Mapping[str, Any] | Registry | None
    auto_register: bool
    branch_names: bool
    max_empty_items: int
    single_object: bool
    also_read: Sequence[str | Mapping[str, Any] | list[Any]]


@overload
def avro(
    schema: str | Mapping[str, Any] | list[Any] | None = ...,
    *,
    type: type[T],
    **options: Unpack[AvroOptions],
) -> AvroSerde[T]: ...
@overload
def avro(
    schema: str | Mapping[str, Any] | list[Any] | None = ...,
    *,
    type: Any = ...,
    **options: Unpack[AvroOptions],
) -> AvroSerde[Any]: ...
def avro(
    schema: str | Mapping[str, Any] | list[Any] | None = None,
    *,
    registry: str | Mapping[str, Any] | Registry | None = None,
    type: Any = dict,  # noqa: A002  reads best at the call
    auto_register: bool = True,
    branch_names: bool = False,
    max_empty_items: int = 100_000,
    single_object: bool = False,
    also_read: Sequence[str | Mapping[str, Any] | list[Any]] = (),
) -> AvroSerde[Any]:
    """Return an Avro serde with this schema, with a registry, or both; needs ``logstate[avro]``.

    Without a registry the bytes are the bare Avro body. With one (a URL, a mapping of client
    settings, ``mock://name`` in tests) they carry the writer's schema id, and records of older and
    newer versions are resolved into ``schema``. Without a schema, records are written with the
    newest schema of their subject, which has to exist. Records become dicts, or ``type``. A record
    with more than ``max_empty_items`` array items that take no bytes is refused before it is read.

    ``single_object=True`` names the schema without a registry: Avro's single-object encoding, 10
    bytes more for each record, for values only. ``also_read`` has the other schemas that rows may
    have been written with; such rows are resolved into ``schema``, so a new field needs a default.
    Raises SerdeError if ``also_read`` is given without it, if it is combined with a registry, and
    for keys, whose bytes must not depend on the schema's version.

    See ``logstate.serdes.avro.AvroSerde`` and
    ``logstate.serdes.avro_single_object.SingleObjectAvroSerde``.

    >>> total = {"type": "record", "name": "Total", "fields": [{"name": "n", "type": "long"}]}
    >>> note = {"name": "note", "type": "string", "default": ""}
    >>> noted = {**total, "fields": [*total["fields"], note]}
    >>> row = avro(total, single_object=True).serializer("totals", False)({"n": 3})
    >>> avro(noted, single_object=True, also_read=[total]).deserializer("totals", False)(row)
    {'n': 3, 'note': ''}
    """
    from logstate.serdes.avro import AvroSerde

    if single_object:
        from logstate.serdes.avro_single_object import SingleObjectAvroSerde

        if schema is None or registry is not None:
            raise SerdeError(
                "avro(single_object=True) needs a schema and no registry: with a registry, records"
                " name their schema by its id there. Leave out one of the two"
            )
        return SingleObjectAvroSerde(
            schema,
            also_read=also_read,
            type_=type,
            branch_names=branch_names,
            max_empty_items=max_empty_items,
        )
    if also_read:
        raise SerdeError(
            "avro(also_read=...) needs single_object=True: without it, rows do not name their"
            " schema. With a registry, leave it out: the registry has the schemas"
        )

    return AvroSerde(
        schema,
        registry=registry,
        type_=type,
        auto_register=auto_register,
        branch_names=branch_names,
        max_empty_items=max_empty_items,
    )


def json_schema_of(
    type_: type[T],
    *,
    registry: str | Mapping[str, Any] | Registry,
    schema: str | None = None,
    auto_register: bool = True,
) -> JsonSchemaSerde[T]:
    """Return a serde for JSON of a type, with its JSON schema in a registry.

    Needs the extra ``logstate[registry]``. Records are framed like those of Confluent's serializer.
    ``schema`` is the text to register instead of the one that is generated from the type. See
    ``logstate.serdes.json_schema_serde.JsonSchemaSerde``.
    """
    from logstate.serdes.json_schema_serde import JsonSchemaSerde

    inner = serde_of(type_, what="JSON with a schema")
    return JsonSchemaSerde(inner, registry, schema=schema, auto_register=auto_register)


def protobuf(
    message: type[T],
    *,
    registry: str | Mapping[str, Any] | Registry | None = None,
    renamed: Mapping[str, str] | None = None,
    auto_register: bool = True,
) -> ProtobufSerde[T]:
    """Return a serde for a class that protoc generated, bare or framed by a registry.

    Without a registry, ``value=Click`` means the same. ``renamed`` names fields and enum values
    whose number kept its meaning under a new name. See
    ``logstate.serdes.protobuf_serde.ProtobufSerde``; needs the extra ``logstate[protobuf]``.
    """
    from logstate.serdes.protobuf_serde import ProtobufSerde

    return ProtobufSerde(message, registry=registry, renamed=renamed, auto_register=auto_register)


def serde_of(spec: Any, *, what: str) -> Serde[Any]:
    """Return the serde that a declaration means. ``what`` names the declared thing in errors.

    A serde is returned unchanged; ``str``, ``int``, ``float``, ``bytes`` and ``bool`` mean the
    scalars; ``Any`` plain JSON, ``dict`` and ``list`` plain JSON that must be an object, or an
    array, when it is written; a generated class Protobuf; every other type (a msgspec.Struct, a
    dataclass, a class of attrs, a pydantic model, a TypedDict) JSON read into that type;
    ``"int64"`` and the other names the serdes of these names. ``T | None`` is ``T``: None is
    Kafka's null and is never passed to a serde. Raises SerdeError.

    >>> serde_of(int, what="the key of topic 'clicks'")
    <serde int64>
    >>> serde_of("jsn", what="the value of topic 'clicks'")
    Traceback (most recent call last):
    ...
    logstate.contracts.errors.SerdeError: 'jsn' is not a serde for the value of topic 'clicks'. \
Did you mean 'json'? The names are boolean, bytes, float32, float64, int16, int32, int64, json, \
string, uuid, uuid_bytes, void.
    """
    if isinstance(spec, Serde):
        return spec
    if spec is None:
        raise SerdeError(
            f"There is no serde for {what}. Its bytes cannot be read or written without one. Give "
            "a type (str, int, bytes, dict, a msgspec.Struct, a dataclass, a pydantic model) or a "
            "serde (string, int64, json, avro(...))."
        )
    if isinstance(spec, str):
        return _serde_named(spec, what)
    if isinstance(spec, type) and issubclass(spec, Serde):
        raise SerdeError(f"The serde for {what} is the class {spec.__name__}: call it to make one.")
    spec = getattr(spec, "__supertype__", spec)  # typing.NewType
    declared = _without_none(spec)
    if declared is not spec:
        return serde_of(declared, what=what)
    if spec is Windowed or typing.get_origin(spec) is Windowed:
        raise SerdeError(
            f"Windowed alone is not a serde for {what}: its bytes lack the window's size. Use "
            "windowed(key_type, size_ms), or session_windowed(key_type)."
        )
    known = _BY_TYPE.get(spec) if _is_hashable(spec) else None
    if known is not None:
        return known
    if not isinstance(spec, type) and typing.get_origin(spec) is None:
        raise SerdeError(
            f"{spec!r} is not a serde for {what}: found {type(spec).__name__}, which is neither a "
            "type, a serde nor the name of one."
        )
    if is_pydantic_model(spec):
        return PydanticSerde(spec)
    if is_protobuf_message(spec):
        return protobuf(spec)
    try:
        return json_of(spec)
    except SerdeError as error:
        raise SerdeError(f"There is no serde for {what}. {error}") from error


def _without_none(spec: Any) -> Any:
    """Return the ``T`` of ``T | None``; return any other declaration unchanged, unions too."""
    if typing.get_origin(spec) not in (typing.Union, types.UnionType):
        return spec
    declared = [one for one in typing.get_args(spec) if one is not types.NoneType]
    return declared[0] if len(declared) == 1 else spec


def _serde_named(name: str, what: str) -> Serde[Any]:
    serde = _BY_NAME.get(name)
    if serde is not None:
        return serde
    near = difflib.get_close_matches(name, _BY_NAME, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise SerdeError(
        f"{name!r} is not a serde for {what}. {hint}The names are {', '.join(sorted(_BY_NAME))}."
    )


def _is_hashable(spec: Any) -> bool:
    try:
        hash(spec)
    except TypeError:
        return False
    return True
