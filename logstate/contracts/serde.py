"""The contract between Python objects and the bytes on a topic or in a store.

A serde is asked once per node for a plain callable, and only that callable runs per record. So a
serde is free to prepare as much as it likes while binding (compile a schema, look up a subject),
and the best ones return a C function such as ``str.encode``.

Invariants:

- None never reaches the callables: Python None and Kafka null map to each other outside, once.
- ``deserialize(serialize(x)) == x`` for every value the serde accepts; a value that would come
  back different is refused when it is written, not when it is read after a restore.
- A callable may be used from several threads at once.
- Callables raise what their codec raises; the caller adds topic, partition and offset.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")

Serializer: TypeAlias = Callable[[T], bytes]
Deserializer: TypeAlias = Callable[[bytes], T]


class Serde(ABC, Generic[T]):
    """How objects of type ``T`` become bytes and come back.

    ``immutable`` says that a decoded object can be kept and handed out again without copying it:
    true for str, int, float, bytes, bool and for frozen types made of these. Where it is false
    every reader gets a freshly decoded object, because user code may change what it is given.
    """

    immutable: bool = False

    @abstractmethod
    def serializer(self, topic: str, is_key: bool) -> Serializer[T]:
        """The function that encodes keys (or values) for ``topic``; bound once."""

    @abstractmethod
    def deserializer(self, topic: str, is_key: bool) -> Deserializer[T]:
        """The function that decodes keys (or values) of ``topic``; bound once."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The format as JSON-able data, for readers that do not have the Python type.

        Always has ``format``; ``schema`` where there is one; ``inner`` and ``window_size_ms`` for
        windowed keys. Never contains addresses with credentials.
        """

    def __repr__(self) -> str:
        return f"<serde {self.describe()['format']}>"
