"""The parts of the command that kill queries, each beside a running application."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.campaigns.spark_versions.cells import numbers
from tests.campaigns.spark_versions.environments import Environment
from tests.campaigns.spark_versions.lake import LAKE_RELEASES
from tests.campaigns.spark_versions.merge_kills import MergeKills
from tests.campaigns.spark_versions.spend_store import SpendStore
from tests.campaigns.spark_versions.stateful_kills import StatefulKills

#: ``transformWithState`` with rows is new in this release
_STATEFUL_SINCE = (4, 1)
#: a life of the stateful queries lasts longer, and has two kills of executors besides
_STATEFUL_KILLS_ONE_IN = 4


class Campaign:
    """Both parts, on one broker."""

    def __init__(self, bootstrap: str, folder: Path, kills: int, seed: int) -> None:
        self._bootstrap, self._folder = bootstrap, folder
        self._kills, self._seed = kills, seed

    def run(
        self, part: str, environments: Sequence[Environment]
    ) -> tuple[list[dict[str, Any]], bool]:
        """The figures of each run, and whether nothing is wrong."""
        runs = self._merges(environments) if part == "merge" else self._stateful(environments)
        found = []
        for run in runs:
            print(run, flush=True)
            found.append(run._asdict())
        is_good = all(not run["wrong"] and not run.get("disagreeing") for run in found)
        return found, is_good and bool(found)

    def _merges(self, environments: Sequence[Environment]) -> Iterator[Any]:
        for lake, releases in LAKE_RELEASES.items():
            for one in environments:
                if one.release in releases:
                    with self._store() as store:
                        merges = MergeKills(store, lake, one, self._seed)
                        yield merges.run(self._kills, _report)

    def _stateful(self, environments: Sequence[Environment]) -> Iterator[Any]:
        with self._store() as store:
            queries = StatefulKills(store, self._seed)
            for one in environments:
                if numbers(one.release) >= _STATEFUL_SINCE:
                    kills = max(1, self._kills // _STATEFUL_KILLS_ONE_IN)
                    yield queries.run(one, kills, _report)

    @contextmanager
    def _store(self) -> Iterator[SpendStore]:
        name = f"kills-{time.time_ns()}"
        store = SpendStore(self._bootstrap, name, self._seed)
        with store.running(self._folder / name):
            yield store


def _report(line: str) -> None:
    print(line, flush=True)
