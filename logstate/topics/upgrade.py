"""Decide whether a topology may start with the state stored under its application id.

    manifest of the cuts topic ──┐
                                 ├─ manifest_changes ─ worst verdict ─ start, or UpgradeError
    manifest of this topology  ──┘

A start changes nothing before it is accepted. Compatible changes are logged one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from logstate.changelog.stored_manifest import NEWEST_VERSION, VERSION, check_topics_are_own
from logstate.contracts.compatibility import MigrationOptions, SpecChange, Verdict, worst
from logstate.contracts.errors import UpgradeError
from logstate.topics.bound_plan import BoundPlan
from logstate.topics.manifest import content, manifest
from logstate.topics.manifest_changes import Manifest, manifest_changes, renames

_LOGGER = logging.getLogger(__name__)


def logged_as_stored(
    plan: BoundPlan, stored: Manifest | None, decisions: MigrationOptions
) -> BoundPlan:
    """Return the plan whose renamed stores use their existing changelogs."""
    if stored is None:
        return plan
    _check_readable(plan.application_id, stored)
    known: Mapping[str, Any] = stored["stores"]
    declared = {"stores": plan.topology.stores}
    names = {name: name for name in plan.topology.stores if name in known}
    names |= {new: old for old, new in renames(stored, declared, decisions).items()}
    logged_as = {new: known[old].get("logged_as", old) for new, old in names.items()}
    formerly = {new: _former_names(new, old, known[old], plan) for new, old in names.items()}
    moved = {
        entry["usual_name"]: name
        for name, entry in stored.get("topics", {}).items()
        if entry.get("usual_name", name) != name
    }
    plan = plan.with_moved_topics(moved)
    renamed = {new: old for new, old in logged_as.items() if new != old}
    had = {name: before for name, before in formerly.items() if before}
    return replace(plan, logged_as=renamed, formerly=had) if renamed or had else plan


def accepted(plan: BoundPlan, stored: Manifest | None, decisions: MigrationOptions) -> BoundPlan:
    """Return the plan with its forgotten stores; raise UpgradeError if it does not fit the state.

    The plan must contain the topic ids of existing changelogs.
    """
    if stored is None:
        return plan
    _check_readable(plan.application_id, stored)
    if stored == content(plan):
        return plan  # the usual case
    own = manifest(plan)
    if stored == own:
        return plan
    changes = manifest_changes(stored, own, decisions)
    check(plan.application_id, changes)
    for change in changes:
        _LOGGER.info("application %s: %s", plan.application_id, change)
    gone = _unused_stores(plan, stored, decisions)
    return replace(plan, forgotten=gone)


def _unused_stores(
    plan: BoundPlan, stored: Manifest, decisions: MigrationOptions
) -> dict[str, Any]:
    """Return the manifest entries of the stores that the plan does not use any more."""
    forgotten = stored.get("forgotten", {})
    known = {**forgotten, **stored["stores"]}
    gone = {
        name: entry
        for name, entry in known.items()
        if name not in plan.topology.stores and (name in decisions.forget or name in forgotten)
    }
    # If another store has its name now, its log still exists under another name.
    logs = set(plan.changelog_topics.values())
    gone |= {
        entry["changelog_topic"]: entry
        for name, entry in forgotten.items()
        if name in plan.topology.stores and entry["changelog_topic"] not in {None, *logs}
    }
    return gone


def check(application_id: str, changes: Iterable[SpecChange]) -> None:
    """Raise UpgradeError with every change that is not compatible."""
    found = [change for change in changes if change.verdict > Verdict.COMPATIBLE]
    if not found:
        return
    lines = "".join(f"\n  {i}. {change}" for i, change in enumerate(found, 1))
    what = "does not fit" if worst(found) is Verdict.REFUSED else "leaves decisions open about"
    raise UpgradeError(
        f"application {application_id!r}: the topology {what} the stored state:{lines}\nNothing was"
        " changed. `logstate plan` shows this before a deployment; `logstate reset"
        f" --application-id {application_id}` deletes all stored state",
        found,
    )


def _former_names(
    name: str, before: str, entry: Mapping[str, Any], plan: BoundPlan
) -> tuple[str, ...]:
    """Return all former names of a renamed store; earlier versions recorded only the first."""
    earlier = entry.get("formerly", (entry.get("logged_as", before),))
    return tuple(
        dict.fromkeys(
            one for one in (*earlier, before) if one != name and one not in plan.topology.stores
        )
    )


def check_no_operation_in_progress(application_id: str, stored: Manifest) -> None:
    """Raise UpgradeError if the application is being reset, or moved to other partitions."""
    if "reset_since" in stored:
        raise UpgradeError(
            f"a reset of application {application_id!r} started at {stored['reset_since']}, or was"
            " interrupted: offsets and topics do not fit together until it has finished. Wait"
            f" for its end, or run `logstate reset --application-id {application_id}` again, which"
            " continues it"
        )
    if "resharding_since" in stored:
        raise UpgradeError(
            f"a reshard of application {application_id!r}, which started at"
            f" {stored['resharding_since']}, has not finished. Stored state is intact. Wait, or run"
            " `logstate reshard` again, which starts over; with --give-up the application keeps its"
            " old partitions"
        )


def _check_readable(application_id: str, stored: Manifest) -> None:
    check_no_operation_in_progress(application_id, stored)
    if stored.get("version", VERSION) > NEWEST_VERSION:
        raise UpgradeError(
            f"application {application_id!r}: its manifest has version {stored['version']}, and"
            f" this logstate reads version {NEWEST_VERSION}. A newer logstate started last: run"
            " that version again, or a newer one"
        )
    check_topics_are_own(application_id, stored)
