"""The protocol that converts between Python objects and the bytes on a topic or in a store.

Each node calls a serde once for a plain callable, and only that callable runs per record. So a
serde may prepare as much as it likes while binding (compile a schema, look up a subject), and the
best ones return a C function such as ``str.encode``.

Invariants:

- None never reaches the callables: Python None and Kafka null map to each other outside, once.
- ``deserialize(serialize(x)) == x`` for every value the serde accepts; a value that would come
  back different is refused when it is written, not when it is read after a restore.
- A callable may be used from several threads at once.
- A class outside of the library returns plain functions, and its serializers return bytes: its
  methods are wrapped by checks when the class is created, so callers need not check anything.
- Callables raise the errors of their codec; the caller adds topic, partition and offset.

A serde may also use the headers of records on topics, by ``header_serializer`` and
``header_deserializer``. Rows of stores, and so changelogs, have the plain form, because they are
read without a record. So:

- the bytes of ``serializer`` can be read by the function of ``header_deserializer`` too, with
  that do not say otherwise;
- a key has the same bytes in both forms: partitions and rows are found by them.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import CoroutineType
from typing import Any, Generic, TypeAlias, TypeVar, cast

from logstate.contracts.errors import SerdeError
from logstate.contracts.record_parts import shown

T = TypeVar("T")

Serializer: TypeAlias = Callable[[T], bytes]
Deserializer: TypeAlias = Callable[[bytes], T]
#: names and values in order; a separate list for the callee
HeaderList: TypeAlias = "list[tuple[str, bytes | None]]"
HeaderSerializer: TypeAlias = Callable[[T, HeaderList], bytes]
HeaderDeserializer: TypeAlias = Callable[[bytes, HeaderList], T]


#: methods of a user's serde whose results are checked
_ASKED_FOR = {"serializer", "deserializer", "header_serializer", "header_deserializer"}
_LIKE_BYTES = (bytes, bytearray, memoryview)


class Serde(ABC, Generic[T]):
    """Converts objects of type ``T`` to bytes and back.

    ``immutable`` means that a decoded object can be kept and returned again without copying it:
    true for str, int, float, bytes, bool and for frozen types of these. If it is false, every
    reader gets a newly decoded object, because user code may change the one that it receives.

    Two of the library's serdes are equal if they read and write the same. A user's serde equals
    only itself, unless its class defines ``__eq__`` and ``__hash__``, as a frozen dataclass does.
    """

    immutable: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not _is_of_library(cls):
            for name in _ASKED_FOR & cls.__dict__.keys():
                if inspect.isfunction(cls.__dict__[name]):
                    setattr(cls, name, _checked(name, cls.__dict__[name]))

    @abstractmethod
    def serializer(self, topic: str, is_key: bool) -> Serializer[T]:
        """Return the function that encodes keys (or values) for ``topic``; called once."""

    @abstractmethod
    def deserializer(self, topic: str, is_key: bool) -> Deserializer[T]:
        """Return the function that decodes keys (or values) of ``topic``; called once."""

    def header_serializer(self, topic: str, is_key: bool) -> HeaderSerializer[T] | None:  # noqa: ARG002
        """Return the encoder for records of ``topic`` that gets their headers; None: not needed.

        ``write(value, headers)`` may add to the list and remove from it; the record gets the list.
        """
        return None

    def header_deserializer(self, topic: str, is_key: bool) -> HeaderDeserializer[T] | None:  # noqa: ARG002
        """Return the decoder for records of ``topic`` that gets their headers; None: not needed.

        ``read(data, headers)``: the list is a copy, empty if the record has no headers.
        """
        return None

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the format as data for JSON, for readers that do not have the Python type.

        Always has ``format``; ``schema`` where there is one; ``inner`` and ``window_size_ms`` for
        windowed keys. Never contains addresses with credentials.
        """

    def prefix_bytes(self, prefix: Any) -> bytes | None:  # noqa: ARG002
        """Return the bytes that every key with these first parts begins with.

        None, as here, if a part of a key does not determine how its bytes begin. Raises SerdeError
        if ``prefix`` is not a part of a key.
        """
        return None

    def equality_key(self) -> Any:
        """Return what the library's serdes are compared by; None: only the same object is equal."""
        return None

    # Called while a topology is declared, for streams that are merged or joined, never per record.
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        # A user's derived class may have more state than is known here.
        if type(self) is not type(other) or not _is_of_library(type(self)):
            return NotImplemented
        mine = self.equality_key()
        return mine is not None and bool(mine == cast("Serde[Any]", other).equality_key())

    def __hash__(self) -> int:
        # What they are compared by contains dicts; there are only a few serdes of one class.
        is_compared = _is_of_library(type(self)) and self.equality_key() is not None
        return hash(type(self)) if is_compared else object.__hash__(self)

    def __repr__(self) -> str:
        return f"<serde {self.describe()['format']}>"


#: functions for the keys and for the values of one topic
Encoders: TypeAlias = tuple[HeaderSerializer[Any], HeaderSerializer[Any]]
Decoders: TypeAlias = tuple[HeaderDeserializer[Any], HeaderDeserializer[Any]]


def header_encoders(key: Serde[Any], value: Serde[Any], topic: str) -> Encoders | None:
    """Return the encoders for a topic; None if neither serde uses headers."""
    if not (key.header_serializer(topic, True) or value.header_serializer(topic, False)):
        return None
    return record_encoders(key, value, topic)


def header_decoders(key: Serde[Any], value: Serde[Any], topic: str) -> Decoders | None:
    """Return the decoders of a topic; None if neither serde uses headers."""
    if not (key.header_deserializer(topic, True) or value.header_deserializer(topic, False)):
        return None
    return record_decoders(key, value, topic)


def record_encoders(key: Serde[Any], value: Serde[Any], topic: str) -> Encoders:
    """Return the encoders for a topic, whether or not a serde uses headers."""
    of_key, of_value = key.header_serializer(topic, True), value.header_serializer(topic, False)
    return (
        of_key or _without_arguments(key.serializer(topic, True)),
        of_value or _without_arguments(value.serializer(topic, False)),
    )


def record_decoders(key: Serde[Any], value: Serde[Any], topic: str) -> Decoders:
    """Return the decoders of a topic, whether or not a serde uses headers."""
    of_key, of_value = key.header_deserializer(topic, True), value.header_deserializer(topic, False)
    return (
        of_key or _without_arguments(key.deserializer(topic, True)),
        of_value or _without_arguments(value.deserializer(topic, False)),
    )


def row_decoders(key: Serde[Any], value: Serde[Any], topic: str) -> Decoders:
    """Return the decoders of a store's changelog, whose headers do not affect its bytes."""
    return _without_arguments(key.deserializer(topic, True)), _without_arguments(
        value.deserializer(topic, False)
    )


def inside(
    inner: Callable[[Any, HeaderList], Any],
    around: Callable[[Callable[[Any], Any]], Callable[[Any], Any]],
) -> Callable[[Any, HeaderList], Any]:
    """Return the function of a serde that wraps that of another one with ``around``."""
    return lambda one, headers: around(lambda part: inner(part, headers))(one)


def _without_arguments(plain: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, _headers: plain(one)


def _is_of_library(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "logstate"


# --- checks of users' serdes ----------------------------------------------------------------------


def _checked(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a user's ``serializer`` or similar: it returns a plain function or raises SerdeError.

    The result is checked once per topic. A serializer is called through one more function.
    """

    @wraps(method)
    def bound(serde: object, topic: str, is_key: bool) -> Any:
        given = method(serde, topic, is_key)
        if given is None and name.startswith("header_"):
            return None
        _check_function(given, serde, name, topic, is_key=is_key)
        if name in ("deserializer", "header_deserializer"):
            return given
        return _bytes_only(given, serde, topic, is_key=is_key)

    return bound


def _check_function(given: Any, serde: object, method: str, topic: str, *, is_key: bool) -> None:
    """Raise SerdeError if a serde's method did not return a plain function."""
    what = f"{method}() of {_owner_text(serde, topic, is_key=is_key)} returned"
    if isinstance(given, CoroutineType):
        given.close()
        raise SerdeError(
            f"{what} a coroutine: it is declared with async def, and is never awaited. Write a"
            " plain method that returns a plain function"
        )
    if not callable(given):
        raise SerdeError(
            f"{what} {shown(given)} ({type(given).__name__}), which is not a function. The method"
            " is called once for a topic, and its result is called for every record"
        )
    called = given if inspect.isroutine(given) else type(given).__call__
    for function in (given, called):
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise SerdeError(
                f"{what} {_function_site(given)}, a coroutine function (async def), which is never"
                " awaited,"
                " so it would never run. Write a plain function; fetch what needs await, such as a"
                " key for decryption, before it is needed"
            )
        if inspect.isgeneratorfunction(function):
            raise SerdeError(
                f"{what} {_function_site(given)}, a generator function (it has a yield). A call"
                " does not run it. Return the result"
            )


def _bytes_only(
    serialize: Callable[..., Any], serde: object, topic: str, *, is_key: bool
) -> Callable[..., bytes]:
    """Return a user's serializer wrapped so that its results are bytes objects, or errors.

    Bytes-like results are copied: a buffer may be refilled for the next record.
    """

    def serialize_to_bytes(value: Any, *headers: Any) -> bytes:
        if is_key and value is None:
            raise SerdeError(
                f"{_owner_text(serde, topic, is_key=is_key)} was given None, which is not a row's"
                " key: skip such a record, or give it a key"
            )
        data = serialize(value, *headers)
        if type(data) is bytes:
            return data
        if isinstance(data, _LIKE_BYTES):
            return bytes(data)
        if isinstance(data, CoroutineType):
            data.close()
        remedy = "Return the bytes"
        if data is None:
            remedy = (
                "None is Kafka's null, and the function that makes the value returns it for no"
                " value: return None from that function, and here the bytes or an error"
            )
        elif isinstance(data, str):
            remedy = 'Return text.encode("utf-8")'
        raise SerdeError(
            f"the serializer {_function_site(serialize)} of"
            f" {_owner_text(serde, topic, is_key=is_key)}"
            f" returned {shown(data)} ({type(data).__name__}) for a {type(value).__name__}, and a"
            f" serializer returns bytes. {remedy}"
        )

    return serialize_to_bytes


def _owner_text(serde: object, topic: str, *, is_key: bool) -> str:
    part = "keys" if is_key else "values"
    return f"the serde {type(serde).__qualname__} for the {part} of topic {topic!r}"


def _function_site(function: Any) -> str:
    target = inspect.unwrap(function)
    name = getattr(target, "__qualname__", type(target).__qualname__)
    code = getattr(target, "__code__", None)
    if code is None:
        return str(name)
    return f"{name} at {Path(code.co_filename).name}:{code.co_firstlineno}"
