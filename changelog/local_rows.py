"""Local rows that were laid out for another declaration of their store.

The directory carries the fingerprint of each store, as the manifest does. Where the two differ in a
way that local rows do not survive, the rows are dropped and come back from the changelog; rows that
have no changelog are never dropped. Indexes that changed are dropped, and built again from the rows
(:mod:`logstate.changelog.index_builds`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from logstate.changelog.backend.backend import KeyRange, StoreBackend
from logstate.changelog.index_builds import changed_indexes
from logstate.changelog.store_fingerprint import (
    fingerprint,
    fingerprint_before_any,
    keeps_local_rows,
    store_changes,
)
from logstate.changelog.stored_meta import StoredMeta, prefix_of, ranges_of, secondary_prefix
from logstate.contracts.errors import UpgradeError
from logstate.contracts.stores import StoreSpec

_LOGGER = logging.getLogger(__name__)


def discard_incompatible_rows(
    meta: StoredMeta, backend: StoreBackend, specs: Sequence[StoreSpec]
) -> None:
    """Note the fingerprints of the stores, and empty those whose rows do not fit theirs.

    Raises UpgradeError for such rows that exist nowhere else; nothing was dropped then.
    """
    incompatible: list[KeyRange] = []
    progress: dict[bytes, bytes | None] = {}
    for spec in specs:
        declared = msgspec.json.encode(fingerprint(spec), order="deterministic")
        stored = meta.fingerprints.get(spec.name)
        if stored is None and spec.name in meta.numbers:
            stored = msgspec.json.encode(fingerprint_before_any(spec), order="deterministic")
        if stored is not None and stored != declared and not _is_compatible(spec, stored, declared):
            incompatible += ranges_of(meta.number_of(spec.name))
            kept = (meta.positions, meta.clocks, meta.topic_ids, meta.segment_offsets, meta.begins)
            for known in kept:
                known.pop(spec.name, None)
        elif stored is not None and stored != declared and not spec.in_memory:
            prefix = secondary_prefix(prefix_of(meta.number_of(spec.name)))
            before = msgspec.json.decode(stored).get("indexes", {})
            changes, changed = changed_indexes(spec, before, prefix)
            progress |= changes
            incompatible += changed
        meta.fingerprints[spec.name] = declared
    if incompatible or progress:
        backend.write({**meta.row(), **progress}, incompatible)


def _is_compatible(spec: StoreSpec, stored: bytes, declared: bytes) -> bool:
    before = msgspec.json.decode(stored)
    if before["in_memory"] and spec.in_memory:
        # No rows were kept, but the clock of a TTL, which the other one must not begin with.
        return bool(before.get("ttl_by", "stream_time") == spec.ttl_by)
    changes = store_changes(spec.name, before, msgspec.json.decode(declared))
    if keeps_local_rows(changes):
        return True
    what = "; ".join(map(str, changes))
    if not spec.is_logged:
        raise UpgradeError(
            f"the local rows of store {spec.name!r} do not fit its declaration, and without a"
            f" changelog they are the only ones: {what}. Undo the change, give the store another"
            " name, or delete the rows: Application.clean_up() deletes those of every store here,"
            " of which only stores with a changelog come back",
            changes,
        )
    _LOGGER.warning("local rows are dropped and come back from the changelog: %s", what)
    return False
