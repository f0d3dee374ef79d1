"""The types of the recordings: JSON value <-> bytes, and the serde that logstate uses for each.

The codec here is written against the recordings' definition and shares no code with
``logstate.serdes.built_in``: the comparison would not notice an error that both sides had.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from logstate import serdes

INT64 = struct.Struct(">q")


@dataclass(frozen=True)
class WireType:
    """``string``, ``int64``, ``windowed`` (with a window size) or ``session_windowed``.

    ``hex`` shows the bytes of a topic that the recording does not know.
    """

    name: str
    window_size_ms: int | None = None

    def encode(self, value: Any) -> bytes | None:
        """The bytes of a JSON value; null has none."""
        if value is None:
            return None
        if self.name == "string":
            return str(value).encode()
        if self.name == "int64":
            return INT64.pack(value)
        inner = value["key"].encode()
        if self.name == "windowed":
            return inner + INT64.pack(value["start"])
        if self.name == "session_windowed":
            return inner + INT64.pack(value["end"]) + INT64.pack(value["start"])
        raise ValueError(f"unknown type {self.name!r}")

    def decode(self, data: bytes | None) -> Any:
        """The JSON value of bytes; no bytes are null."""
        if data is None:
            return None
        if self.name == "hex":
            return data.hex()
        if self.name == "string":
            return data.decode()
        if self.name == "int64":
            return INT64.unpack(data)[0]
        if self.name == "windowed":
            start = INT64.unpack(data[-8:])[0]
            end = start + (self.window_size_ms or 0)
            return {"key": data[:-8].decode(), "start": start, "end": end}
        if self.name == "session_windowed":
            end, start = INT64.unpack(data[-16:-8])[0], INT64.unpack(data[-8:])[0]
            return {"key": data[:-16].decode(), "start": start, "end": end}
        raise ValueError(f"unknown type {self.name!r}")

    @property
    def is_windowed(self) -> bool:
        return self.name in ("windowed", "session_windowed")

    @property
    def serde(self) -> serdes.Serde[Any]:
        """logstate's serde for this type."""
        if self.name == "string":
            return serdes.string
        if self.name == "int64":
            return serdes.int64
        if self.name == "windowed":
            assert self.window_size_ms is not None, "a windowed key needs its window size"
            return serdes.windowed(serdes.string, self.window_size_ms)
        if self.name == "session_windowed":
            return serdes.session_windowed(serdes.string)
        raise ValueError(f"unknown type {self.name!r}")


STRING = WireType("string")
BIGINT = WireType("int64")
SESSION = WireType("session_windowed")


def topic_types(topic: dict[str, Any]) -> tuple[WireType, WireType]:
    """Key and value type of an entry of ``inputs`` or ``outputs``."""
    size = topic.get("window_size_ms")
    key = WireType(topic["key"], size if topic["key"] == "windowed" else None)
    return key, WireType(topic["value"])


def encode_headers(headers: list[list[Any]] | None) -> list[tuple[str, bytes | None]] | None:
    """Headers of an event as a record carries them."""
    if headers is None:
        return None
    return [(name, None if text is None else text.encode()) for name, text in headers]


def decode_headers(headers: Any) -> list[list[Any]]:
    """Headers of a record as the recordings write them: text or null, in order."""
    return [[name, None if raw is None else raw.decode()] for name, raw in headers or ()]
