"""A named cut as a value: what it covers, where that is kept, and until when. Pure.

As a record of the topic ``<application id>-logstate-named-cuts``, under its name, it is JSON::

    {"version": 1, "name": name, "created_at_ms": wall clock, "expires_at_ms": wall clock or null,
     "cut":    the cut (logstate.changelog.cuts.cut_value),
     "stores": {store: {"entry":    its entry in the manifest of that moment,
                        "topic":    the topic of its copy,
                        "topic_id": that topic's id,
                        "ends":     {partition: next offset in the copy}}}}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from logstate.changelog.cuts.cut_value import CutValue, offsets_of, parse_cut
from logstate.contracts.errors import ConfigError, RestoreError

_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
#: they mean something as the option ``cut`` already
_TAKEN = ("latest", "latest-commit")


class StoreCopy(NamedTuple):
    """A store as a named cut keeps it: a topic with the records that its changelog had."""

    entry: Mapping[str, Any]
    """In the manifest of that moment: types may have changed since."""
    topic: str
    topic_id: str
    ends: Mapping[int, int]
    """Partition to next offset; the copy begins at 0."""


@dataclass(frozen=True)
class NamedCut:
    """A cut that can be read for as long as it is kept, whatever compaction does meanwhile."""

    name: str
    created_at_ms: int
    """Wall clock when it was complete."""
    expires_at_ms: int | None
    """Wall clock from which on it is refused and may be deleted; None: until it is deleted."""
    cut: CutValue
    """What it covers, in offsets of the application's own topics."""
    stores: Mapping[str, StoreCopy]

    def to_json(self) -> str:
        """As it is stored."""
        stores = {
            name: {"entry": kept.entry, "topic": kept.topic, "topic_id": kept.topic_id,
                   "ends": kept.ends}
            for name, kept in self.stores.items()
        }  # fmt: skip
        return json.dumps(
            {
                "version": _VERSION,
                "name": self.name,
                "created_at_ms": self.created_at_ms,
                "expires_at_ms": self.expires_at_ms,
                "cut": json.loads(str(self.cut)),
                "stores": stores,
            }
        )

    @property
    def records(self) -> int:
        """How many are kept, over all stores."""
        return sum(sum(kept.ends.values()) for kept in self.stores.values())

    def is_expired(self, now_ms: int) -> bool:
        """Whether its time is over."""
        return self.expires_at_ms is not None and now_ms >= self.expires_at_ms

    def copy_of(self, store: str, now_ms: int) -> StoreCopy:
        """Where a store is kept.

        Raises RestoreError if the cut is expired, ConfigError if the store is not in it.
        """
        if self.is_expired(now_ms):
            raise RestoreError(
                f"the cut {self.name!r} was kept until {_date(self.expires_at_ms or 0)}, and it is "
                f"{_date(now_ms)} now: what it covers is given up; read a newer cut, or make one "
                "that is kept for longer"
            )
        if store not in self.stores:
            raise ConfigError(
                f"the cut {self.name!r} has no store {store!r}; it has {sorted(self.stores)}"
            )
        return self.stores[store]

    def cut_of_copy(self, store: str) -> CutValue:
        """The same cut in offsets of the copy of a store, with the clocks of then."""
        kept = self.stores[store]
        return CutValue(
            {kept.topic: kept.ends},
            {kept.topic: kept.topic_id},
            clocks=self.cut.clocks,
            taken_at_ms=self.cut.taken_at_ms,
        )


def parse_named_cut(text: str | bytes) -> NamedCut:
    """The named cut of a record. Raises RestoreError if a newer version wrote it."""
    found: dict[str, Any] = json.loads(text)
    if found["version"] != _VERSION:
        raise RestoreError(
            f"a named cut of version {found['version']} was found, and this logstate reads version "
            f"{_VERSION}: read it with the version that made it, or a newer one"
        )
    stores = {
        name: StoreCopy(
            one["entry"],
            one["topic"],
            one["topic_id"],
            offsets_of({"ends": one["ends"]})["ends"],
        )
        for name, one in found["stores"].items()
    }
    return NamedCut(
        found["name"],
        found["created_at_ms"],
        found["expires_at_ms"],
        parse_cut(json.dumps(found["cut"])),
        stores,
    )


def _date(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.isoformat(sep=" ", timespec="seconds")


def is_cut_name(text: str) -> bool:
    """Whether a text can be the name of a cut: letters, digits, ``-`` and ``_``, at most 80.

    >>> is_cut_name("before-v2"), is_cut_name("latest"), is_cut_name('{"topic": {"0": 1}}')
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None and text not in _TAKEN


def check_cut_name(name: str) -> None:
    """Raises ConfigError where ``is_cut_name`` says no."""
    if not is_cut_name(name):
        raise ConfigError(
            f"{name!r} is no name for a cut: take letters, digits, - and _, at most 80, and none "
            f"of {', '.join(_TAKEN)}"
        )
