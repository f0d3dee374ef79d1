"""A record of a log, as a client gives it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Written:
    at: int
    row: bytes
    data: bytes | None
    time_ms: int

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes:
        return self.row

    def value(self) -> bytes | None:
        return self.data

    def timestamp(self) -> tuple[int, int]:
        """Time 0 travels as "no timestamp"."""
        return 1, self.time_ms or -1

    def headers(self) -> None:
        return None
