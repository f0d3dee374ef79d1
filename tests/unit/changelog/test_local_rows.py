"""Local rows that lie otherwise than the store reads them are rebuilt, never misread."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from logstate import serdes
from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.state import TaskState
from logstate.changelog.stored_meta import StoredMeta, read_meta
from logstate.contracts.errors import UpgradeError
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Windowed
from logstate.contracts.stores import StoreSpec
from tests.unit.changelog.store_bench import BenchContext


def sessions(*, is_final: bool, is_logged: bool = True) -> StoreSpec:
    return StoreSpec(
        "visits",
        "session",
        serdes.string,
        serdes.int64,
        retention_ms=60,
        keep_at_retention=is_final,
        is_logged=is_logged,
    )


def opened(spec: StoreSpec, backend: MemoryBackend) -> TaskState:
    return TaskState([spec], cast(TaskContext, BenchContext()), backend=backend)


def written(spec: StoreSpec) -> tuple[MemoryBackend, StoredMeta]:
    """What an instance left behind: one row, and what stands beside it."""
    backend = MemoryBackend()
    state = opened(spec, backend)
    store: Any = state.stores["visits"]
    store.put(Windowed("a", 10, 20), 1)
    changes = state.freeze()
    state.committed(changes, {"visits": 1} if spec.is_logged else {})
    state.apply()
    return backend, read_meta(backend)


def count(state: TaskState) -> int:
    return len(list(state._rows["visits"].scan()))


@pytest.mark.parametrize("knew_fingerprints", [False, True])
def test_final_sessions_that_lie_as_before_are_dropped_and_replayed(
    knew_fingerprints: bool, caplog: pytest.LogCaptureFixture
) -> None:
    spec = sessions(is_final=True)
    backend, meta = written(spec)
    noted = msgspec.json.decode(meta.fingerprints["visits"])
    assert noted.pop("layout") == 2
    meta.fingerprints = {"visits": msgspec.json.encode(noted)} if knew_fingerprints else {}
    backend.write(meta.row())

    state = opened(spec, backend)

    assert count(state) == 0
    assert state.positions == {}
    assert "layout" in caplog.text


def test_they_are_kept_where_they_lie_as_they_are_read() -> None:
    spec = sessions(is_final=True)
    backend, _ = written(spec)

    state = opened(spec, backend)

    assert count(state) == 2  # by time, and by key
    assert state.positions == {"visits": 1}


def test_other_sessions_are_kept_as_they_lie() -> None:
    spec = sessions(is_final=False)
    backend, meta = written(spec)
    meta.fingerprints = {}
    backend.write(meta.row())

    assert count(opened(spec, backend)) == 1


def test_rows_that_are_nowhere_else_are_not_dropped() -> None:
    spec = sessions(is_final=True, is_logged=False)
    backend, meta = written(spec)
    meta.fingerprints = {}
    backend.write(meta.row())

    with pytest.raises(UpgradeError, match="layout"):
        opened(spec, backend)
