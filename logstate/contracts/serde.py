"""The contract between Python objects and the bytes on a topic or in a store.

A serde is asked once per node for a plain callable, and only that callable runs per record. So a
serde is free to prepare as much as it likes while binding (compile a schema, look up a subject),
and the best ones return a C function such as ``str.encode``.

Invariants:

- None never reaches the callables: Python None and Kafka null map to each other outside, once.
- ``deserialize(serialize(x)) == x`` for every value the serde accepts; a value that would come
  back different is refused when it is written, not when it is read after a restore.
- A callable may be used from several threads at once.
- What a class outside of the library gives is a plain function, and its serializers return bytes:
  whoever makes such a class has its methods checked, so that nobody who asks it need do that.
- Callables raise what their codec raises; the caller adds topic, partition and offset.

A serde may also look at the headers of records on topics, by ``header_serializer`` and
``header_deserializer``. Rows of stores, and so changelogs, have the plain form: they are read where
there is no record. So:

- what ``serializer`` writes is read by the function of ``header_deserializer`` too, with headers
  that do not say otherwise;
- a key has the same bytes in both forms: partitions and rows are found by them.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

from logstate.contracts.serde_checks import checked

T = TypeVar("T")

Serializer: TypeAlias = Callable[[T], bytes]
Deserializer: TypeAlias = Callable[[bytes], T]
#: names and values in order; a list of the callee's own
HeaderList: TypeAlias = "list[tuple[str, bytes | None]]"
HeaderSerializer: TypeAlias = Callable[[T, HeaderList], bytes]
HeaderDeserializer: TypeAlias = Callable[[bytes, HeaderList], T]


#: what users write of it, and what they return is checked
_ASKED_FOR = {"serializer", "deserializer", "header_serializer", "header_deserializer"}


class Serde(ABC, Generic[T]):
    """How objects of type ``T`` become bytes and come back.

    ``immutable`` says that a decoded object can be kept and handed out again without copying it:
    true for str, int, float, bytes, bool and for frozen types made of these. Where it is false
    every reader gets a freshly decoded object, because user code may change what it is given.
    """

    immutable: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.partition(".")[0] != "logstate":
            for name in _ASKED_FOR & cls.__dict__.keys():
                if inspect.isfunction(cls.__dict__[name]):
                    setattr(cls, name, checked(name, cls.__dict__[name]))

    @abstractmethod
    def serializer(self, topic: str, is_key: bool) -> Serializer[T]:
        """The function that encodes keys (or values) for ``topic``; bound once."""

    @abstractmethod
    def deserializer(self, topic: str, is_key: bool) -> Deserializer[T]:
        """The function that decodes keys (or values) of ``topic``; bound once."""

    def header_serializer(self, topic: str, is_key: bool) -> HeaderSerializer[T] | None:  # noqa: ARG002
        """The function that encodes for records of ``topic`` and sees their headers; None: none.

        ``write(value, headers)`` may add to the list and take away; it becomes the record's.
        """
        return None

    def header_deserializer(self, topic: str, is_key: bool) -> HeaderDeserializer[T] | None:  # noqa: ARG002
        """The function that decodes records of ``topic`` by their headers; None: it needs none.

        ``read(data, headers)``: the list is a copy, empty where the record has no headers.
        """
        return None

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The format as JSON-able data, for readers that do not have the Python type.

        Always has ``format``; ``schema`` where there is one; ``inner`` and ``window_size_ms`` for
        windowed keys. Never contains addresses with credentials.
        """

    def __repr__(self) -> str:
        return f"<serde {self.describe()['format']}>"


#: of the keys and of the values of one topic
Encoders: TypeAlias = tuple[HeaderSerializer[Any], HeaderSerializer[Any]]
Decoders: TypeAlias = tuple[HeaderDeserializer[Any], HeaderDeserializer[Any]]


def header_encoders(key: Serde[Any], value: Serde[Any], topic: str) -> Encoders | None:
    """What encodes for a topic; None where neither serde looks at headers."""
    if not (key.header_serializer(topic, True) or value.header_serializer(topic, False)):
        return None
    return record_encoders(key, value, topic)


def header_decoders(key: Serde[Any], value: Serde[Any], topic: str) -> Decoders | None:
    """What decodes a topic; None where neither serde looks at headers."""
    if not (key.header_deserializer(topic, True) or value.header_deserializer(topic, False)):
        return None
    return record_decoders(key, value, topic)


def record_encoders(key: Serde[Any], value: Serde[Any], topic: str) -> Encoders:
    """What encodes for a topic, whether or not a serde looks at headers."""
    of_key, of_value = key.header_serializer(topic, True), value.header_serializer(topic, False)
    return (
        of_key or _blind(key.serializer(topic, True)),
        of_value or _blind(value.serializer(topic, False)),
    )


def record_decoders(key: Serde[Any], value: Serde[Any], topic: str) -> Decoders:
    """What decodes a topic, whether or not a serde looks at headers."""
    of_key, of_value = key.header_deserializer(topic, True), value.header_deserializer(topic, False)
    return (
        of_key or _blind(key.deserializer(topic, True)),
        of_value or _blind(value.deserializer(topic, False)),
    )


def row_decoders(key: Serde[Any], value: Serde[Any], topic: str) -> Decoders:
    """What decodes the changelog of a store, whose headers say nothing about its bytes."""
    return _blind(key.deserializer(topic, True)), _blind(value.deserializer(topic, False))


def inside(
    inner: Callable[[Any, HeaderList], Any],
    around: Callable[[Callable[[Any], Any]], Callable[[Any], Any]],
) -> Callable[[Any, HeaderList], Any]:
    """The function of a serde that puts something ``around`` that of another one."""
    return lambda one, headers: around(lambda part: inner(part, headers))(one)


def _blind(plain: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, _headers: plain(one)
