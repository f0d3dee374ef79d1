"""A named cut as a value: what it covers, where its copies are, and until when they are kept.

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
from typing import Any, NamedTuple

import msgspec

from logstate.changelog.cuts.cut_value import (
    CutRecord,
    CutValue,
    Offset,
    Partition,
    TopicName,
    WallClock,
)
from logstate.changelog.stored_manifest import check_entry, text_of_damage
from logstate.contracts.clock import date_of
from logstate.contracts.errors import UNDECODABLE, ConfigError, RestoreError
from logstate.contracts.topic_names import cut_copies, named_cuts_topic

_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
#: reserved values of the option ``cut``
_TAKEN = ("latest", "latest-commit")


class StoreCopy(NamedTuple):
    """A store in a named cut: a topic with the records that its changelog had."""

    entry: Mapping[str, Any]
    """Its entry in the manifest of that moment: types may have changed since."""
    topic: str
    topic_id: str
    ends: Mapping[int, int]
    """Partition to next offset; the copy begins at 0."""


@dataclass(frozen=True)
class NamedCut:
    """A cut that can be read for as long as it is kept, independent of compaction."""

    name: str
    created_at_ms: int
    """Wall clock when it was completed."""
    expires_at_ms: int | None
    """Wall clock at which it expires: reads are then refused, and it may be deleted. None: never"""
    cut: CutValue
    """The cut, in offsets of the application's own topics."""
    stores: Mapping[str, StoreCopy]

    def to_json(self) -> str:
        """Return the stored JSON."""
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
        """The number of records kept, over all stores."""
        return sum(sum(kept.ends.values()) for kept in self.stores.values())

    def is_expired(self, now_ms: int) -> bool:
        """Whether it is expired."""
        return self.expires_at_ms is not None and now_ms >= self.expires_at_ms

    def copy_of(self, store: str, now_ms: int) -> StoreCopy:
        """Return where a store is kept.

        Raises RestoreError if the cut is expired, ConfigError if the store is not in it.
        """
        if self.is_expired(now_ms):
            raise RestoreError(
                f"the cut {self.name!r} was kept until {date_of(self.expires_at_ms or 0)}, and it"
                f" is {date_of(now_ms)} now: the cut is expired. Read a newer cut, or create one"
                " with a longer retention"
            )
        if store not in self.stores:
            raise ConfigError(
                f"the cut {self.name!r} has no store {store!r}; it has {sorted(self.stores)}"
            )
        return self.stores[store]

    def cut_of_copy(self, store: str) -> CutValue:
        """Return the same cut in offsets of the copy of a store, with the clocks of that time."""
        kept = self.stores[store]
        return CutValue(
            {kept.topic: kept.ends},
            {kept.topic: kept.topic_id},
            clocks=self.cut.clocks,
            taken_at_ms=self.cut.taken_at_ms,
        )


class _CopyRecord(msgspec.Struct):
    entry: dict[str, Any]
    topic: TopicName
    topic_id: str
    ends: dict[Partition, Offset]


class _Version(msgspec.Struct):
    version: int


class _NamedCutRecord(_Version):
    name: str
    created_at_ms: WallClock
    expires_at_ms: WallClock | None
    cut: CutRecord
    stores: dict[str, _CopyRecord]


def parse_named_cut(text: str | bytes, application: str = "", name: str = "") -> NamedCut:
    """Return the named cut of a record, which has the key ``name`` in the topic of ``application``.

    Raises RestoreError if a newer version wrote it, if it is damaged, and, if the application is
    given, if it names topics that are not copies of this cut.
    """
    try:
        version = msgspec.json.decode(text, type=_Version).version
        if version != _VERSION:
            raise RestoreError(
                f"found a named cut of version {version}, but this logstate reads version "
                f"{_VERSION}: read it with the version that made it, or a newer one"
            )
        found = msgspec.json.decode(text, type=_NamedCutRecord)
        cut = found.cut.value()
        for store, one in found.stores.items():
            check_entry(store, one.entry)
        if application:
            _check_own(found, application, name)
    except UNDECODABLE as error:
        raise _damaged(text_of_damage(error), application, name) from error
    stores = {
        store: StoreCopy(one.entry, one.topic, one.topic_id, one.ends)
        for store, one in found.stores.items()
    }
    return NamedCut(found.name, found.created_at_ms, found.expires_at_ms, cut, stores)


def is_copy(application: str, cut: str, topic: str) -> bool:
    """Whether a topic is named as a copy of a named cut: other topics are never read or deleted.

    >>> is_copy("shop", "v1", "shop-logstate-cut.v1.spending.rows"), is_copy("shop", "v1", "orders")
    (True, False)
    """
    return topic.startswith(cut_copies(application, cut)) and topic.endswith(".rows")


def _check_own(found: _NamedCutRecord, application: str, name: str) -> None:
    if found.name != name:
        raise ValueError(f"it is the record of the cut {found.name!r:.100}")
    for store, copy in found.stores.items():
        if not is_copy(application, name, copy.topic):
            raise ValueError(
                f"it keeps store {store!r:.100} in {copy.topic!r}, which is not a copy of this cut"
            )


def _damaged(what: str, application: str, name: str) -> RestoreError:
    if not application:
        return RestoreError(f"the record of a named cut is damaged: {what}")
    return RestoreError(
        f"the record of the cut {name!r:.100} in {named_cuts_topic(application)!r} is damaged:"
        f" {what}. Another program wrote to that topic, or the record was changed. The cut cannot"
        f" be read: `logstate cut delete {name:.100} --application-id {application}` removes the"
        " record and the copies. Create another cut"
    )


def is_cut_name(text: str) -> bool:
    """Whether a text can be the name of a cut: letters, digits, ``-`` and ``_``, at most 80.

    >>> is_cut_name("before-v2"), is_cut_name("latest"), is_cut_name('{"topic": {"0": 1}}')
    (True, False, False)
    """
    return _NAME.fullmatch(text) is not None and text not in _TAKEN


def check_cut_name(name: str) -> None:
    """Raises ConfigError unless ``is_cut_name``."""
    if not is_cut_name(name):
        raise ConfigError(
            f"{name!r} is not a valid name of a cut: use letters, digits, - and _, at most 80, and"
            f" none of {', '.join(_TAKEN)}"
        )
