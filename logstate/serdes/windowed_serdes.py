"""Serdes of windowed keys, in the layouts of :mod:`logstate.contracts.changelog_keys`.

A windowed key does not contain its end: the reader must know the window's size. So ``windowed``
takes it (or the windows, if they differ in length) and ``session_windowed`` does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from logstate.contracts.changelog_keys import (
    MAX_TIME_MS,
    SESSION_TAIL_BYTES,
    START_BYTES,
    pack_session_tail,
    pack_start,
    unpack_session_tail_from,
    unpack_start_from,
)
from logstate.contracts.errors import SerdeError
from logstate.contracts.records import Windowed
from logstate.contracts.serde import (
    Deserializer,
    HeaderDeserializer,
    HeaderSerializer,
    Serde,
    Serializer,
    inside,
)

K = TypeVar("K")


class WindowedSerde(Serde[Windowed[K]]):
    """A serde for keys of tumbling, hopping and sliding windows."""

    def __init__(
        self,
        inner: Serde[K],
        window_size_ms: int,
        *,
        end_of: Callable[[int], int] | None = None,
    ) -> None:
        if window_size_ms <= 0:
            raise SerdeError(
                f"A window size must be positive, found {window_size_ms} ms. It is the size the "
                "writer used: the key does not contain the window's end."
            )
        self.inner = inner
        self.window_size_ms = window_size_ms
        #: start -> end, if windows differ in length
        self.end_of = end_of
        self.immutable = inner.immutable

    def serializer(self, topic: str, is_key: bool) -> Serializer[Windowed[K]]:
        return self._writing(self.inner.serializer(topic, is_key))

    def header_serializer(self, topic: str, is_key: bool) -> HeaderSerializer[Windowed[K]] | None:
        inner = self.inner.header_serializer(topic, is_key)
        return None if inner is None else inside(inner, self._writing)

    def _writing(self, inner: Serializer[K]) -> Serializer[Windowed[K]]:
        pack, size_ms, end_of = pack_start, self.window_size_ms, self._end_of

        def serialize(windowed: Windowed[K]) -> bytes:
            key, start_ms, end_ms = windowed
            if end_ms - start_ms != size_ms and end_ms != end_of(start_ms):
                raise SerdeError(
                    f"The window ends {end_ms - start_ms} ms after its start, and would be read as"
                    f" one that ends after {end_of(start_ms) - start_ms} ms: its end is not among"
                    " the bytes. Declare windowed(..., size_ms) with the size of these windows, or"
                    " the windows themselves; sessions are session_windowed(...)"
                )
            return inner(key) + pack(start_ms)

        return serialize

    def _end_of(self, start_ms: int) -> int:
        if self.end_of is not None:
            return self.end_of(start_ms)
        return min(start_ms + self.window_size_ms, MAX_TIME_MS)

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[Windowed[K]]:
        return self._reading(self.inner.deserializer(topic, is_key))

    def header_deserializer(
        self, topic: str, is_key: bool
    ) -> HeaderDeserializer[Windowed[K]] | None:
        inner = self.inner.header_deserializer(topic, is_key)
        return None if inner is None else inside(inner, self._reading)

    def _reading(self, inner: Deserializer[K]) -> Deserializer[Windowed[K]]:
        unpack = unpack_start_from
        # Half the cost of calling Windowed: no Python-level constructor.
        make: Callable[..., Windowed[K]] = tuple.__new__
        size_ms, tail, end_of = self.window_size_ms, -START_BYTES, self.end_of

        def deserialize_varying(data: bytes) -> Windowed[K]:
            at = len(data) + tail
            if at < 0:
                raise _too_short(data, START_BYTES, "a windowed key ends in an 8-byte window start")
            start_ms = unpack(data, at)[0]
            assert end_of is not None
            return make(Windowed, (inner(data[:tail]), start_ms, end_of(start_ms)))

        def deserialize(data: bytes) -> Windowed[K]:
            at = len(data) + tail
            if at < 0:
                raise _too_short(data, START_BYTES, "a windowed key ends in an 8-byte window start")
            start_ms = unpack(data, at)[0]
            end_ms = start_ms + size_ms
            if end_ms > MAX_TIME_MS:  # noqa: PLR1730  as Java clamps it; min() costs 60 ns
                end_ms = MAX_TIME_MS
            return make(Windowed, (inner(data[:tail]), start_ms, end_ms))

        return deserialize if end_of is None else deserialize_varying

    def equality_key(self) -> Any:
        return self.inner, self.window_size_ms, self.end_of

    def describe(self) -> dict[str, Any]:
        return {
            "format": "windowed",
            "schema": None,
            "inner": self.inner.describe(),
            "window_size_ms": self.window_size_ms if self.end_of is None else None,
        }


class SessionWindowedSerde(Serde[Windowed[K]]):
    """A serde for keys of session windows; ``end_ms`` is the time of the session's last record."""

    def __init__(self, inner: Serde[K]) -> None:
        self.inner = inner
        self.immutable = inner.immutable

    def serializer(self, topic: str, is_key: bool) -> Serializer[Windowed[K]]:
        return self._writing(self.inner.serializer(topic, is_key))

    def header_serializer(self, topic: str, is_key: bool) -> HeaderSerializer[Windowed[K]] | None:
        inner = self.inner.header_serializer(topic, is_key)
        return None if inner is None else inside(inner, self._writing)

    def _writing(self, inner: Serializer[K]) -> Serializer[Windowed[K]]:
        pack = pack_session_tail

        def serialize(windowed: Windowed[K]) -> bytes:
            return inner(windowed.key) + pack(windowed.end_ms, windowed.start_ms)

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[Windowed[K]]:
        return self._reading(self.inner.deserializer(topic, is_key))

    def header_deserializer(
        self, topic: str, is_key: bool
    ) -> HeaderDeserializer[Windowed[K]] | None:
        inner = self.inner.header_deserializer(topic, is_key)
        return None if inner is None else inside(inner, self._reading)

    def _reading(self, inner: Deserializer[K]) -> Deserializer[Windowed[K]]:
        unpack = unpack_session_tail_from
        make: Callable[..., Windowed[K]] = tuple.__new__

        def deserialize(data: bytes) -> Windowed[K]:
            if len(data) < SESSION_TAIL_BYTES:
                raise _too_short(
                    data, SESSION_TAIL_BYTES, "a session key ends in its 8-byte end and start"
                )
            end_ms, start_ms = unpack(data, len(data) - SESSION_TAIL_BYTES)
            return make(Windowed, (inner(data[:-SESSION_TAIL_BYTES]), start_ms, end_ms))

        return deserialize

    def equality_key(self) -> Any:
        return self.inner

    def describe(self) -> dict[str, Any]:
        return {"format": "session_windowed", "schema": None, "inner": self.inner.describe()}


def _too_short(data: bytes, least: int, rule: str) -> SerdeError:
    return SerdeError(
        f"{len(data)} bytes are too few for this key: {rule}, so at least {least} are needed. "
        "Was the topic written with plain keys?"
    )
