"""The recorded runs under other circumstances: results must not depend on any of them.

Every run is repeated with stores in RocksDB on disk, with commits every 1, 7 and 1,000 records,
with every commit applied to RocksDB and with every fifth, and either without a crash, or with one
after every fifth event, from which the task comes back with what is on disk or with the changelogs
alone.
Outputs in order, dropped records and stores must be the recorded ones, and a last restore from
nothing but the changelogs must give the same stores.

What a commit is for cannot be the same: the changelog holds the last write of a row per commit.
Runs with a cache are not repeated: their events say when to commit, and that decides what is sent.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from logstate.contracts.errors import LogstateError
from logstate.testing.driver import TopologyTestDriver
from logstate.topology import Topology

from .compare import Difference, list_differences, tree_differences
from .observer import Observer, recorded_class
from .settings import driver_settings
from .vectors import Case, Run

CRASH_EVERY = 5
#: thousands of databases are made and thrown away: where there is a file system in memory, there
_FOLDER = next((folder for folder in ("/dev/shm",) if Path(folder).is_dir()), None)

Restore = Literal["no crash", "crash, disk kept", "crash, disk lost"]


@dataclass(frozen=True)
class Variation:
    """Circumstances of a run."""

    commit_every: int
    apply_every: int
    restore: Restore

    def __str__(self) -> str:
        return f"commit {self.commit_every}, apply {self.apply_every}, {self.restore}"


VARIATIONS = [
    Variation(commit_every, apply_every, restore)
    for commit_every, apply_every, restore in itertools.product(
        (1, 7, 1000), (1, 5), ("no crash", "crash, disk kept", "crash, disk lost")
    )
]


def variations_of(topology: Topology) -> list[Variation]:
    """The variations that must not show: a store without a changelog may be lost in a crash."""
    unlogged = [spec for spec in topology.stores.values() if not spec.is_logged]
    lossy = {"crash, disk lost"} if unlogged else set()
    if any(spec.in_memory for spec in unlogged):
        lossy.add("crash, disk kept")
    return [variation for variation in VARIATIONS if variation.restore not in lossy]


def varied_differences(
    case: Case, topology: Topology, expected: Run, variation: Variation
) -> Iterator[Difference]:
    """What differs from the recording when the run happens under these circumstances."""
    dropped: list[list[int]] = []
    error = None
    with tempfile.TemporaryDirectory(prefix="conformance-", dir=_FOLDER) as folder:
        driver = TopologyTestDriver(
            topology,
            **{
                **driver_settings(case.config),
                "changelog_writes": "commit",
                "state_dir": Path(folder) / "state",
                "commit_every": variation.commit_every,
                "apply_every": variation.apply_every,
            },
        )
        with driver:
            observer = Observer(case, topology, driver)
            dropped_before = driver.dropped_total
            for cause, event in enumerate(expected.events):
                try:
                    observer.apply(event)
                except LogstateError as failure:
                    error = {"cause": cause, "exception": recorded_class(failure)}
                    break
                if (cause + 1) % CRASH_EVERY == 0 and variation.restore != "no crash":
                    driver.crash(loses_disk=variation.restore == "crash, disk lost")
                if driver.dropped_total != dropped_before:
                    dropped.append([cause, driver.dropped_total - dropped_before])
                    dropped_before = driver.dropped_total
            output = [observer.output(record) for record in driver.outputs]
            yield from list_differences("output", _without_cause(expected.output), output)
            yield from list_differences("dropped", expected.dropped, dropped)
            if error != expected.error:
                yield Difference("error", expected.error, error)
            if error is None:
                driver.advance_wall_clock(0)  # commits: only then is everything logged
                assert expected.stores is not None, "the stores of the run are not recorded"
                yield from tree_differences("stores", expected.stores, observer.stores())
                yield from _restored_differences(expected, topology, observer)


def _restored_differences(
    expected: Run, topology: Topology, observer: Observer
) -> Iterator[Difference]:
    """The folded changelog must equal the store."""
    assert expected.stores is not None, "the stores of the run are not recorded"
    observer.driver.crash(loses_disk=True)
    unlogged = {name for name, spec in topology.stores.items() if not spec.is_logged}
    restored = observer.stores()
    for name in unlogged:
        restored[name] = expected.stores[name]
    yield from tree_differences("restored stores", expected.stores, restored)


def _without_cause(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "cause"} for row in output]
