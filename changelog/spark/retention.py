"""How long the files of a view stay for readers after they were replaced. Pure.

How it works: ``CURRENT`` lists what each version replaced, and when. A reader of the version before
may have begun until that moment, so the files stay until ``keep_for`` has passed since and
``keep_versions`` versions are newer. Only then are they left out of the list, and removed after
that list has been published: a crash between leaves files that nothing names, which go later.

Invariants: a file is on the list from the moment in which it is in no version any more, and no
file that is on it is removed. Times are those of the writer's clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from logstate.contracts.errors import ConfigError

#: what readers get if nothing is said
KEEP_VERSIONS = 3
KEEP_FOR = timedelta(minutes=5)


def now_ms() -> int:
    """The clock of this machine."""
    return int(time.time() * 1000)


@dataclass(frozen=True)
class Replaced:
    """What one version replaced."""

    version: int
    """The one that replaced it."""
    at_ms: int
    paths: tuple[str, ...]
    """Directories, relative to the view's."""


class Retention:
    """What a view keeps for its readers."""

    def __init__(
        self, keep_versions: int, keep_for: timedelta, clock: Callable[[], int] = now_ms
    ) -> None:
        """Raises ConfigError if ``keep_for`` is negative, ValueError below two versions."""
        if keep_versions < 2:
            raise ValueError(
                f"keep_versions is {keep_versions}; at least 2 are needed, because the version "
                "being replaced may still be read"
            )
        if keep_for < timedelta(0):
            raise ConfigError(f"keep_for is {keep_for}; a view cannot keep files for less than 0 s")
        self.keep_versions = keep_versions
        self.keep_for = keep_for
        self._clock = clock

    def after(
        self, replaced: Iterable[Replaced], version: int, paths: Iterable[str]
    ) -> tuple[Replaced, ...]:
        """The list of a version that replaces some paths: without what no reader needs any more.

        >>> retention = Retention(2, timedelta(seconds=10), clock=lambda: 15_000)
        >>> replaced = [Replaced(7, 4_000, ("base-6",)), Replaced(8, 6_000, ("base-7",))]
        >>> [one.paths for one in retention.after(replaced, 9, ["base-8"])]
        [('base-7',), ('base-8',)]
        """
        at_ms = self._clock()
        newest = Replaced(version, at_ms, tuple(paths))
        oldest_ms = at_ms - self.keep_for // timedelta(milliseconds=1)
        oldest_version = version - self.keep_versions + 2
        kept = [one for one in replaced if one.at_ms > oldest_ms or one.version >= oldest_version]
        return (*kept, newest) if newest.paths else tuple(kept)


def paths_of(replaced: Iterable[Replaced]) -> set[str]:
    """All paths of a list."""
    return {path for one in replaced for path in one.paths}


def listed(published: Iterable[Mapping[str, Any]]) -> tuple[Replaced, ...]:
    """The list as ``CURRENT`` has it."""
    return tuple(Replaced(one["version"], one["at_ms"], tuple(one["paths"])) for one in published)
