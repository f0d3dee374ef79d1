"""The fingerprint of a store: what its bytes depend on, as plain data, and the effect of changes.

The fingerprint is stored in the manifest, for the changelog, and in the state directory, for the
local rows. Both are compared with the declaration before a single row is read.

Local rows have an additional rule: a change that leaves the changelog readable may change the rows'
layout (:func:`keeps_local_rows`). They are rebuilt from the changelog then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.compatibility import SpecChange, Verdict, worst
from logstate.contracts.stores import StoreSpec
from logstate.serdes.compatibility import serde_changes

#: of the rows in the changelog and on the disk; a higher one means that they are written otherwise
ROW_FORMAT: Final = 1

Fingerprint = Mapping[str, Any]

_OTHER_ROWS = (
    "Rows that are there would be read as something else. Keep it, or use a store of another name"
    " and forget this one"
)
_HAND_OVER = (
    "Rows that are not in the changelog now would be missing after a move or a rebuild. Keep it, or"
    " use a store of another name and forget this one"
)
_LONGER = "Rows are kept longer from now on; what has expired does not come back"
_SHORTER = "Rows older than that expire at the next record, and later ones come too late"
_LAYOUT = "The local rows are rebuilt in the new layout, from the changelog"
_ONLY_LOCAL = (
    "Without a changelog its rows are where they were kept, and nowhere else. Keep it, or use a"
    " store of another name and forget this one"
)
_STEPS = (
    "Windows with the new starts count from now on: those that are open lack what came before."
    " Those that no longer start stay as they are until they expire"
)
_GAP = "It counts from now on: a session that is there changes when the next record comes near it"
_LIMIT = "It counts from now on; rows that are there stay as they are"

_TTL = (
    "It counts from the time of each row, that of its last write: rows that have expired by it are"
    " deleted, and what was deleted does not come back"
)
_TTL_BY = (
    "It counts by the other clock from now on, for each row from the time that the row has. Local"
    " rows are rebuilt from the changelog"
)
_INDEXES = (
    "Local rows stay. An index that is new or has another type is built from them in the"
    " background; until then by() and by_range() refuse it"
)

#: for the parts that are not serdes: the verdict about any change, and its effect
_RULES: Final[Mapping[str, tuple[Verdict, str]]] = {
    "kind": (Verdict.REFUSED, _OTHER_ROWS),
    "row_format": (Verdict.REFUSED, _OTHER_ROWS),
    "window_size_ms": (Verdict.REFUSED, _OTHER_ROWS),
    "retain_duplicates": (Verdict.REFUSED, _OTHER_ROWS),
    "with_headers": (Verdict.REFUSED, _OTHER_ROWS),
    "logs_headers": (Verdict.REFUSED, _OTHER_ROWS),
    "is_logged": (Verdict.REFUSED, _HAND_OVER),
    "retention_ms": (Verdict.COMPATIBLE, _LONGER),
    "history_ms": (Verdict.COMPATIBLE, _LONGER),
    "segment_interval_ms": (Verdict.COMPATIBLE, _LAYOUT),
    "keep_at_retention": (Verdict.COMPATIBLE, _LAYOUT),
    "layout": (Verdict.COMPATIBLE, _LAYOUT),
    "in_memory": (Verdict.COMPATIBLE, _LAYOUT),
    "advance_ms": (Verdict.COMPATIBLE, _STEPS),
    "gap_ms": (Verdict.COMPATIBLE, _GAP),
    "grace_ms": (Verdict.COMPATIBLE, _LIMIT),
    "capacity": (Verdict.COMPATIBLE, _LIMIT),
    "ttl_ms": (Verdict.COMPATIBLE, _TTL),
    "ttl_by": (Verdict.COMPATIBLE, _TTL_BY),
    "indexes": (Verdict.COMPATIBLE, _INDEXES),
}
#: None stands for windows of the user's own, and for processors: nothing is known of these
_OFTEN_UNKNOWN: Final = ("advance_ms", "gap_ms")
_TIMES: Final = ("retention_ms", "history_ms")
_LAYOUTS: Final = ("segment_interval_ms", "keep_at_retention", "layout", "ttl_by")
_FIRST_LAYOUT: Final = 1
#: rows begin with an index time and their own time; in layout 2 with their own time alone
_LAYOUT_WITH_TIMES: Final = 3
#: what a fingerprint without these parts says
_UNSAID: Final = {"layout": _FIRST_LAYOUT, "ttl_ms": None, "ttl_by": "stream_time", "indexes": None}


def fingerprint(spec: StoreSpec) -> dict[str, Any]:
    """Return everything that the bytes of a store depend on."""
    kind = kind_of(spec)
    element = {} if spec.element is None else {"element": spec.element_format}
    ttl: dict[str, Any] = {} if spec.ttl_ms is None else {"ttl_ms": spec.ttl_ms}
    if spec.ttl_by != "stream_time":
        ttl["ttl_by"] = spec.ttl_by
    described = {one.name: one.describe() for one in spec.indexes}
    return {
        "kind": spec.kind,
        "row_format": ROW_FORMAT,
        "key": spec.key_format,
        "value": spec.value_format,
        **element,
        "window_size_ms": spec.window_size_ms,
        "advance_ms": spec.advance_ms,
        "gap_ms": spec.gap_ms,
        "retention_ms": spec.retention_ms,
        "history_ms": spec.history_ms,
        "segment_interval_ms": kind.segment_interval_ms(spec),
        "grace_ms": spec.grace_ms,
        "capacity": spec.capacity,
        **ttl,
        **({"indexes": described} if described else {}),
        "retain_duplicates": spec.retain_duplicates,
        "with_headers": spec.with_headers,
        "logs_headers": spec.logs_headers,
        "keep_at_retention": spec.keep_at_retention,
        "layout": kind.local_layout(spec) if spec.ttl_ms is None else _LAYOUT_WITH_TIMES,
        "in_memory": spec.in_memory,
        "is_logged": spec.is_logged,
    }


def fingerprint_before_any(spec: StoreSpec) -> dict[str, Any]:
    """Return the fingerprint for rows of a directory without stored fingerprints."""
    return fingerprint(spec) | {"layout": _FIRST_LAYOUT}


def store_changes(name: str, stored: Fingerprint, declared: Fingerprint) -> list[SpecChange]:
    """What changed about a store. Parts that an earlier version did not note are not compared."""
    return list(_changes(f"store {name!r}", stored, declared))


def _changes(subject: str, stored: Fingerprint, declared: Fingerprint) -> Iterator[SpecChange]:
    stored, declared = {**_UNSAID, **stored}, {**_UNSAID, **declared}
    for part, (verdict, meaning) in _RULES.items():
        if part not in stored or stored[part] == declared[part]:
            continue
        sides = (stored[part], declared[part])
        if part in _OFTEN_UNKNOWN and None in sides:
            continue
        if part == "advance_ms" and 0 in sides:  # sliding windows: they begin at records
            yield SpecChange(Verdict.REFUSED, subject, part, *sides, _OTHER_ROWS)
            continue
        if part == "in_memory" and not declared["is_logged"]:
            yield SpecChange(Verdict.REFUSED, subject, part, *sides, _ONLY_LOCAL)
            continue
        is_shorter = part in _TIMES and all(sides) and sides[1] < sides[0]
        yield SpecChange(verdict, subject, part, *sides, _SHORTER if is_shorter else meaning)
    if stored["kind"] == declared["kind"]:  # otherwise their serdes say nothing new
        for part in ("key", "value", "element"):
            if part in declared:
                yield from serde_changes(subject, part, stored.get(part), declared[part])


def keeps_local_rows(changes: Iterable[SpecChange]) -> bool:
    """Whether rows on the disk can be used as they lie there."""
    found = list(changes)
    return worst(found) <= Verdict.COMPATIBLE and not any(c.part in _LAYOUTS for c in found)
