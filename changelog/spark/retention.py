"""How long a view keeps replaced files for its readers.

How it works: ``CURRENT`` lists the files that each version replaced, and the time. A reader may
have started on the previous version until that time, so the files stay until ``keep_for`` has
passed and ``keep_versions`` versions are newer. Then the next version leaves them out of the list,
and they are deleted after it is published. A crash in between leaves unlisted files, which a later
batch deletes.

Invariants: a file that no version uses any more is on the list, and a file on the list is not
deleted. Times are those of the writer's clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from logstate.contracts.errors import ConfigError

#: the defaults
KEEP_VERSIONS = 3
KEEP_FOR = timedelta(minutes=5)


def now_ms() -> int:
    """Return the wall-clock time in ms."""
    return int(time.time() * 1000)


@dataclass(frozen=True)
class Replaced:
    """The directories that one version replaced."""

    version: int
    """The version that replaced them."""
    at_ms: int
    paths: tuple[str, ...]
    """Relative to the view's directory."""


class Retention:
    """Selects the replaced directories that a view keeps."""

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
        """Return the list of a new version that replaces ``paths``, without expired entries.

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
    """Return all paths of a list."""
    return {path for one in replaced for path in one.paths}


def listed(published: Iterable[Mapping[str, Any]]) -> tuple[Replaced, ...]:
    """Parse the list in ``CURRENT``."""
    return tuple(Replaced(one["version"], one["at_ms"], tuple(one["paths"])) for one in published)
