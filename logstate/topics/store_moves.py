"""Compute which stores have to move when an application changes its partition counts.

    manifest, as it was written last ──┐
                                       ├─ planned ─ Moves, or UpgradeError with all that is wrong
    plan, bound to the inputs' counts ─┘

The partition of a store's row depends on the partition count of its changelog, so a sub-topology
with another number of tasks needs changelogs with the new count. Kafka neither removes partitions
nor redistributes rows; so the new ones are other topics, of a new *generation*, and the manifest
names them (``logged_as`` of a store, ``usual_name`` of a repartition topic). The application uses
the old topics until the manifest changes, and the new ones from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from logstate.contracts.compatibility import NOTHING_DECIDED, SpecChange
from logstate.contracts.errors import UpgradeError
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import changelog_topic, generation_of
from logstate.serdes.join_serdes import CombinedKeySerde
from logstate.topics.bound_plan import BoundPlan
from logstate.topics.manifest import manifest
from logstate.topics.manifest_changes import (
    Entry,
    Manifest,
    is_placed_otherwise,
    manifest_changes,
)
from logstate.topics.merged_clocks import FinalResults
from logstate.topics.placement import hashed_windows, hashed_windows_of_left
from logstate.topics.upgrade import check, logged_as_stored
from logstate.topology.graph.nodes import TopicRef
from logstate.topology.graph.sub_topology import SubTopology
from logstate.topology.operators.aggregates.sliding_aggregate import SlidingAggregateNode
from logstate.topology.operators.aggregates.window_aggregate import WindowAggregateNode
from logstate.topology.operators.joins.foreign_key_left import SubscriptionSendNode

#: parts that a move changes
_EXPECTED = frozenset({"partitions", "changelog_topic", "source_topics", "fed_by"})


@dataclass(frozen=True)
class StoreMove:
    """A store, and the changelogs between which its rows move."""

    spec: StoreSpec
    entry: Entry
    source: str
    target: str
    before: int
    after: int
    #: of a subscription store: partitions of the left rows
    left_partitions: int | None
    #: of a store whose results are emitted when they are final
    final_results: FinalResults | None
    #: how many windows of its keys are hashed (:mod:`logstate.topics.placement`), also of left rows
    hashed_before: int = 0
    hashed_after: int = 0
    hashed_of_left: int = 0


@dataclass(frozen=True)
class TaskMove:
    """A sub-topology with state, and its former tasks."""

    sub_topology: SubTopology
    #: its number in the last run
    number_before: int
    before: int
    after: int
    #: topics that its tasks read in the last run
    sources_before: tuple[str, ...]


@dataclass(frozen=True)
class Moves:
    """All that moves."""

    #: the new plan of the application
    plan: BoundPlan
    stored: Manifest
    stores: tuple[StoreMove, ...]
    tasks: tuple[TaskMove, ...]
    #: repartition topics that are replaced: they must be empty
    drained: tuple[str, ...]
    #: external inputs that are not read any more: they must have been read to their ends
    left: tuple[str, ...]

    @property
    def targets(self) -> frozenset[str]:
        """The topics that are created."""
        renamed = (self.plan.moved_topics.get(topic) for topic in self._usual_topics.values())
        return frozenset({*(move.target for move in self.stores), *filter(None, renamed)})

    @property
    def unused_topics(self) -> tuple[str, ...]:
        """The topics of the application that are unused afterwards."""
        return (*(move.source for move in self.stores), *self.drained)

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """Store -> partitions before and after."""
        return {move.spec.name: (move.before, move.after) for move in self.stores}

    @property
    def _usual_topics(self) -> dict[str, str]:
        topics = self.stored.get("topics", {})
        return {name: topics[name].get("usual_name", name) for name in self.drained}


def without_mark(stored: Manifest) -> Manifest:
    """Return the manifest before a move began."""
    return {name: value for name, value in stored.items() if not name.startswith("resharding_")}


def planned(bound: BoundPlan, stored: Manifest, existing: Collection[str]) -> Moves:
    """Return what moves; ``bound`` to the current inputs, ``existing`` topics of the application.

    Raises UpgradeError with all problems.
    """
    stored = without_mark(stored)
    as_stored = logged_as_stored(bound, stored, NOTHING_DECIDED)
    topics = stored.get("topics", {})
    misplaced = dict(_topics_hashed_before(as_stored, topics))
    tasks = tuple(_task_moves(as_stored, stored, misplaced))
    drained = tuple(
        name
        for name, entry in topics.items()
        if name in misplaced
        or as_stored.partition_counts.get(name, entry["partitions"]) != entry["partitions"]
    )
    label = _free_generation(bound.application_id, existing)
    plan = _in_generation(bound, as_stored, tasks, {n: topics[n] for n in drained}, label)
    stores = tuple(_store_moves(plan, stored, tasks, {*misplaced.values()}))
    _check(plan, stored, tasks, stores)
    read = {*plan.subscription, *topics}
    left = tuple(t for t in stored.get("inputs", ()) if t not in read)
    return Moves(plan, stored, stores, tasks, drained, left)


def _topics_hashed_before(
    plan: BoundPlan, stored: Mapping[str, Entry]
) -> Iterator[tuple[str, TopicRef]]:
    """Yield repartition topics, by their usual names, whose keys an earlier version hashed."""
    now = manifest(plan)["topics"]
    for ref in {ref for sub in plan.topology.sub_topologies for ref in sub.source_topics}:
        name = plan.resolved(ref.name, ref.is_internal)
        if name in stored and name in now and is_placed_otherwise(stored[name], now[name]):
            yield name, ref


def _task_moves(
    plan: BoundPlan, stored: Manifest, misplaced: Collection[str]
) -> Iterator[TaskMove]:
    """Yield tasks whose number changes, or whose inputs change their placement."""
    known = stored["stores"]
    lefts = _left_sub_topologies(plan.topology.sub_topologies)
    changed = {
        sub.id
        for sub in plan.topology.sub_topologies
        for spec in sub.stores
        if spec.name in known and known[spec.name]["partitions"] != plan.task_count(sub)
    }
    changed |= {
        sub.id
        for sub in plan.topology.sub_topologies
        if any(name in misplaced for name in plan.source_topics(sub))
    }
    for sub in plan.topology.sub_topologies:
        entries = [known[spec.name] for spec in sub.stores if spec.name in known]
        answers_to = {lefts[name].id for name in map(_registration, sub.stores) if name in lefts}
        if not entries or (sub.id not in changed and not answers_to & changed):
            continue
        first = entries[0]
        yield TaskMove(
            sub,
            first["sub_topology"],
            first["partitions"],
            plan.task_count(sub),
            tuple(first["source_topics"]),
        )


def _left_sub_topologies(
    sub_topologies: Collection[SubTopology],
) -> dict[str | None, SubTopology]:
    """Return registration topic -> the sub-topology that subscribes there."""
    return {
        node.registration_topic: sub
        for sub in sub_topologies
        for node in sub.nodes
        if isinstance(node, SubscriptionSendNode)
    }


def _registration(spec: StoreSpec) -> str | None:
    return spec.key.registration_topic if isinstance(spec.key, CombinedKeySerde) else None


def _free_generation(application_id: str, existing: Collection[str]) -> int:
    number = 1
    while any(t.startswith(f"{application_id}-{generation_of(number, '')}") for t in existing):
        number += 1
    return number


def _in_generation(
    bound: BoundPlan,
    as_stored: BoundPlan,
    tasks: Collection[TaskMove],
    drained: Mapping[str, Entry],
    label: int,
) -> BoundPlan:
    moving = [spec.name for move in tasks for spec in move.sub_topology.stores if spec.is_logged]
    logged_as = dict(as_stored.logged_as)
    logged_as.update({name: generation_of(label, name) for name in moving})
    topics = dict(as_stored.moved_topics)
    beginning = f"{bound.application_id}-"
    for name, entry in drained.items():
        usual = entry.get("usual_name", name)
        topics[usual] = beginning + generation_of(label, usual.removeprefix(beginning))
    # Tasks without a commit since a store was renamed have its clocks under the old names.
    renamed = replace(bound, logged_as=logged_as, formerly=as_stored.formerly)
    return renamed.with_moved_topics(topics)


def _store_moves(
    plan: BoundPlan,
    stored: Manifest,
    tasks: Collection[TaskMove],
    misplaced: Collection[TopicRef],
) -> Iterator[StoreMove]:
    lefts = _left_sub_topologies(plan.topology.sub_topologies)
    counts = {sub.id: plan.task_count(sub) for sub in plan.topology.sub_topologies}
    for move in tasks:
        for spec in move.sub_topology.stores:
            entry = stored["stores"].get(spec.name)
            if entry is None or not spec.is_logged or spec.source_topic is not None:
                continue
            left = lefts.get(_registration(spec))
            sub = move.sub_topology
            yield StoreMove(
                spec,
                entry,
                entry["changelog_topic"],
                changelog_topic(plan.application_id, plan.logged_as[spec.name]),
                move.before,
                move.after,
                None if left is None else counts[left.id],
                _final_results(sub, spec),
                hashed_windows(plan.topology, sub, spec, misplaced) or 0,
                hashed_windows(plan.topology, sub, spec) or 0,
                _hashed_of_left(plan, left, spec) or 0,
            )


def _hashed_of_left(plan: BoundPlan, left: SubTopology | None, spec: StoreSpec) -> int | None:
    key = spec.key.describe().get("primary_key") if left else None
    return 0 if left is None or key is None else hashed_windows_of_left(plan.topology, left, key)


def _final_results(sub: SubTopology, spec: StoreSpec) -> FinalResults | None:
    """Return the final results of a store whose operator emits on window close."""
    for node in sub.nodes:
        store: Any = getattr(node, "store", None)
        is_of_store = getattr(store, "name", None) == spec.name
        if not is_of_store or getattr(node, "emit", None) != "close":
            continue
        if isinstance(node, WindowAggregateNode):
            return FinalResults(node.windows.size_ms, is_end_exclusive=True)
        if isinstance(node, SlidingAggregateNode):
            return FinalResults(node.windows.difference_ms, is_end_exclusive=False)
        return FinalResults(0, is_end_exclusive=False)  # sessions: their time is their end
    return None


def _check(
    plan: BoundPlan,
    stored: Manifest,
    tasks: Collection[TaskMove],
    stores: Collection[StoreMove],
) -> None:
    problems = [*_unmovable_tasks(plan, tasks, stored), *_split_tasks(tasks, stored)]
    if problems:
        raise UpgradeError(
            f"the state of application {plan.application_id!r} cannot be moved: "
            + "; ".join(problems)
            + ". Nothing was changed"
        )
    moving = {f"store {move.spec.name!r}" for move in stores}
    own = manifest(plan)
    names = {entry.get("usual_name", name): name for name, entry in own["topics"].items()}
    topics = stored.get("topics", {})
    renamed = {
        names.get(entry.get("usual_name", name), name): entry for name, entry in topics.items()
    }
    changes = manifest_changes({**stored, "topics": renamed}, own, NOTHING_DECIDED)
    check(plan.application_id, [one for one in changes if not _is_expected(one, moving)])


def _is_expected(change: SpecChange, moving: Collection[str]) -> bool:
    of_topic = change.subject.startswith("topic ") and change.part in ("partitions", "placement")
    return of_topic or (change.subject in moving and change.part in _EXPECTED)


def _unmovable_tasks(
    plan: BoundPlan, tasks: Collection[TaskMove], stored: Manifest
) -> Iterator[str]:
    lefts = _left_sub_topologies(plan.topology.sub_topologies)
    for move in tasks:
        for spec in move.sub_topology.stores:
            if spec.name not in stored["stores"]:
                continue
            if spec.source_topic is not None:
                yield (
                    f"store {spec.name!r} is kept in its source topic {spec.source_topic!r}, whose"
                    " rows stay in the partitions that they were written to. Write them to a topic"
                    " with the new count, by key, and start a new application with that topic"
                )
            elif not spec.is_logged and not spec.in_memory:
                yield (
                    f"store {spec.name!r} has no changelog: its rows are local, in directories of"
                    " tasks that would have other keys. Forget it under this name first"
                )
            elif None in {
                hashed_windows(plan.topology, move.sub_topology, spec),
                _hashed_of_left(plan, lefts.get(_registration(spec)), spec),
            }:
                yield (
                    f"store {spec.name!r} has rows of windowed keys that are placed by the whole"
                    " key if they come from a repartition topic, and by the key inside the window"
                    " if they come from another one, and a row does not record its origin"
                )


def _split_tasks(tasks: Collection[TaskMove], stored: Manifest) -> Iterator[str]:
    for move in tasks:
        known = stored["stores"]
        names = [spec.name for spec in move.sub_topology.stores if spec.name in known]
        places = {(known[n]["sub_topology"], known[n]["partitions"]) for n in names}
        if len(places) > 1:
            yield (
                f"stores {', '.join(map(repr, names))} belonged to different sub-topologies that"
                " are one now: move the state with the topology that wrote it, and change that"
                " afterwards"
            )
