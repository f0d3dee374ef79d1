"""What a killed logstate process left on its disk."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from logstate.changelog.backend.rocks import RocksBackend
from logstate.changelog.stored_meta import StoredMeta

_META = b"\x00meta"
_FIRST_ROW, _BEHIND_ROWS = b"\x01", b"\x02"


class LocalState(NamedTuple):
    """Rows of all stores, and the sum of the changelog positions that they stand for."""

    rows: int
    positions: int


def local_state(state: Path) -> LocalState:
    """Open every RocksDB directory below ``state`` and count."""
    rows = positions = 0
    for directory in sorted(marker.parent for marker in state.rglob("CURRENT")):
        backend = RocksBackend(directory)
        try:
            meta = backend.get(_META)
            if meta is not None:
                stored = msgspec.msgpack.decode(meta, type=StoredMeta)
                positions += sum(stored.positions.values())
            rows += sum(1 for _ in backend.scan(_FIRST_ROW, _BEHIND_ROWS))
        finally:
            backend.close()
    return LocalState(rows, positions)
