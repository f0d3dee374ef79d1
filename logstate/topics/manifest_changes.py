"""Compare the stored manifest with the one that a topology declares.

Stores are identified by name, as everywhere: a store whose name is gone was either renamed, or it
is not needed any more. Only the user knows which, so it needs a decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from logstate.changelog.store_fingerprint import store_changes
from logstate.changelog.stored_manifest import is_own_topic
from logstate.contracts.compatibility import (
    NOTHING_DECIDED,
    MigrationOptions,
    SpecChange,
    Verdict,
)
from logstate.contracts.topic_names import changelog_topic
from logstate.serdes.compatibility import serde_changes
from logstate.topics.manifest import HASHES_WINDOWS
from logstate.topics.row_places import windows_of

Entry = Mapping[str, Any]

#: the kind of stores that were left behind when an application was taken over from the JVM
OF_KAFKA_STREAMS = "store of Kafka Streams"
#: marks topics that are unused since the rows were moved to other partitions
MOVED_AWAY = "moved_away"


def is_own_log(application_id: str, name: str, entry: Entry) -> bool:
    """Return whether the application created the changelog of an entry, and is its only writer."""
    if entry.get(MOVED_AWAY):
        moved = entry["changelog_topic"]
        return moved is not None and is_own_topic(application_id, moved)
    if entry["kind"] == OF_KAFKA_STREAMS or is_in_its_source(entry):
        return False
    own = changelog_topic(application_id, entry.get("logged_as", name))
    return bool(entry["changelog_topic"] == own)


def is_in_its_source(entry: Entry) -> bool:
    """Return whether a store is kept in the external topic that it reads."""
    return entry["changelog_topic"] in entry.get("source_topics", ())


def may_hold_rows_of(entry: Entry, declared: Entry) -> bool:
    """Return whether a declared store would find the rows of a forgotten one in its changelog.

    It would if that topic was not deleted since, whatever the names of the two stores.
    """
    log, now = declared["changelog_topic"], declared.get("changelog_topic_id")
    if now is None or log != entry["changelog_topic"] or is_in_its_source(declared):
        return False
    return entry.get("changelog_topic_id") in (None, now)


Manifest = Mapping[str, Any]


_ADDED = "It starts empty, and contains what is processed from now on"
_FORGOTTEN = "It is forgotten: its changelog {changelog!r} stays, and nothing reads or writes it"
_RENAMED = "The rows of {old!r} are its rows; its changelog keeps its name, {changelog!r}"
_TAKEN = "Two stores cannot become one. Rename it to a name that is not stored yet, or forget it"
_UNLOGGED = "A store without a changelog cannot be renamed: its rows are local only. Forget it"
_REVIVED = (
    "Its changelog {changelog!r} has the rows of a store that was forgotten before, and misses all"
    " later ones. Delete that topic for a store that starts empty, or choose another name"
)
_OF_THE_JVM = (
    "Its changelog would be {changelog!r}, which Kafka Streams wrote and a takeover left behind; it"
    " may be that of an application whose id begins like this one. Choose another name"
)
_SHARED = (
    "Its changelog would be that of {other!r}, whose former name is {name!r}: both would read"
    " the other's rows as their own. Choose another name"
)
_MOVED = "The numbers of its tasks changed; the local rows are rebuilt from the changelog"
_STRANDED = (
    "Its rows are local only, in directories of tasks whose numbers changed. Declare the"
    " sub-topologies in their old order, or forget it under this name and choose another"
)
_COUNT = (
    "Keys would be looked up in the wrong partition. Move the rows with `logstate reshard`"
    " (docs/resharding.md), give the topics their old count, or use another application_id"
)
_OTHER_LOG = (
    "Its rows are in the other topic. Build with the optimization that was used (reuse of source"
    " topics), or use a store of another name and forget this one"
)
_OTHER_INPUTS = (
    "The committed offsets that belong to its rows are those of other topics. Give repartition"
    " topics their old names, or use a store of another name and forget this one"
)
_EXCHANGED = (
    "Its rows, or its stream times, belong to another side: rows of one input would be read as"
    " those of the other. Declare the sides of the join, or the groups of the cogroup,"
    " in their old order, or use stores of other names and forget these"
)
_PLACED_WITHOUT_WINDOWS = (
    "Earlier versions placed windowed keys by the hash of the key inside, and rows of the"
    " downstream stores would not be found. Move them with `logstate reshard` to as many partitions"
    " (docs/resharding.md), or rename this topic and these stores and forget the old ones"
)
_TOPIC_GONE = (
    "Unprocessed records in it would be lost. Let the version that reads it finish"
    " them, then say forget={{{name!r}}}; or give it its old name"
)
_TOPIC_FORGOTTEN = "Nothing reads or writes it any more"


def manifest_changes(
    stored: Manifest, declared: Manifest, decisions: MigrationOptions = NOTHING_DECIDED
) -> list[SpecChange]:
    """Return every difference that affects stored bytes, in the order of the stored manifest."""
    return [
        *_store_changes(stored, declared["stores"], decisions),
        *_topic_changes(stored.get("topics", {}), declared["topics"], decisions),
    ]


def renames(stored: Manifest, declared: Manifest, decisions: MigrationOptions) -> dict[str, str]:
    """Return stored name -> declared name, for the decisions that need an action."""
    return {
        old: new
        for old, new in decisions.renamed.items()
        if old in stored["stores"] and old not in declared["stores"] and new in declared["stores"]
    }


def _store_changes(
    stored: Manifest, declared: Mapping[str, Entry], decisions: MigrationOptions
) -> Iterator[SpecChange]:
    known: Mapping[str, Entry] = stored["stores"]
    moved = renames(stored, {"stores": declared}, decisions)
    for name, entry in known.items():
        if name in declared:
            yield from _entry_changes(name, entry, declared[name])
        elif name in moved:
            yield from _renamed(name, moved[name], known, declared[moved[name]])
        elif name in decisions.forget:
            meaning = _FORGOTTEN.format(changelog=entry.get("changelog_topic"))
            yield _change(Verdict.COMPATIBLE, name, entry["kind"], None, meaning)
        else:
            meaning = _ask_for_decision(name, entry, known, declared)
            yield _change(Verdict.DECISION, name, entry["kind"], None, meaning)
    forgotten = stored.get("forgotten", {})
    kept = [name for name in declared if name in known or name in moved.values()]
    logs = {topic: name for name in kept if (topic := declared[name]["changelog_topic"])}
    for name, entry in declared.items():
        if name in known or name in moved.values():
            continue
        given_up = [one for one in forgotten.values() if may_hold_rows_of(one, entry)]
        if given_up:
            is_of_the_jvm = any(one["kind"] == OF_KAFKA_STREAMS for one in given_up)
            template = _OF_THE_JVM if is_of_the_jvm else _REVIVED
            meaning = template.format(changelog=entry["changelog_topic"])
            yield _change(Verdict.REFUSED, name, "forgotten", entry["kind"], meaning)
        elif (other := logs.get(entry["changelog_topic"])) is not None:
            meaning = _SHARED.format(other=other, name=name)
            yield _change(Verdict.REFUSED, name, None, entry["kind"], meaning)
        else:
            yield _change(Verdict.COMPATIBLE, name, None, entry["kind"], _ADDED)


def _entry_changes(name: str, stored: Entry, declared: Entry) -> Iterator[SpecChange]:
    if stored == declared:  # the usual case
        return
    yield from store_changes(name, stored, declared)
    subject = f"store {name!r}"
    yield from _moves(subject, stored, declared)
    counts = (stored["partitions"], declared["partitions"])
    if counts[0] != counts[1]:
        yield SpecChange(Verdict.REFUSED, subject, "partitions", *counts, _COUNT)
    logs = (stored["changelog_topic"], declared["changelog_topic"])
    if logs[0] != logs[1] and all(logs):
        yield SpecChange(Verdict.REFUSED, subject, "changelog_topic", *logs, _OTHER_LOG)
    inputs = (stored["source_topics"], declared["source_topics"])
    if not set(inputs[0]) & set(inputs[1]):
        yield SpecChange(Verdict.REFUSED, subject, "source_topics", *inputs, _OTHER_INPUTS)
    elif "fed_by" in stored:  # earlier versions did not record it
        yield from _changed_inputs(subject, stored["fed_by"], declared["fed_by"])


def _changed_inputs(
    subject: str, stored: Sequence[list[str]], declared: Sequence[list[str]]
) -> Iterator[SpecChange]:
    """Yield inputs of a task that changed, or that changed sides."""
    before, now = set(chain(*stored)), set(chain(*declared))
    if before and now and not before & now:
        sides = (sorted(before), sorted(now))
        yield SpecChange(Verdict.REFUSED, subject, "fed_by", *sides, _OTHER_INPUTS)
    elif stored != declared and sorted(stored) == sorted(declared):
        yield SpecChange(Verdict.REFUSED, subject, "fed_by", stored, declared, _EXCHANGED)


def _moves(subject: str, stored: Entry, declared: Entry) -> Iterator[SpecChange]:
    numbers = (stored["sub_topology"], declared["sub_topology"])
    if numbers[0] != numbers[1]:
        is_stranded = not declared["is_logged"] and not declared["in_memory"]
        verdict = Verdict.REFUSED if is_stranded else Verdict.COMPATIBLE
        meaning = _STRANDED if is_stranded else _MOVED
        yield SpecChange(verdict, subject, "sub_topology", *numbers, meaning)


def _renamed(
    old: str, new: str, known: Mapping[str, Entry], declared: Entry
) -> Iterator[SpecChange]:
    entry = known[old]
    if new in known:
        yield _change(Verdict.REFUSED, old, entry["kind"], new, _TAKEN)
    elif not entry.get("is_logged", True):
        yield _change(Verdict.REFUSED, old, entry["kind"], new, _UNLOGGED)
    else:
        meaning = _RENAMED.format(old=old, changelog=entry["changelog_topic"])
        yield SpecChange(Verdict.COMPATIBLE, f"store {new!r}", "name", old, new, meaning)
        yield from _entry_changes(new, entry, declared)


def _ask_for_decision(
    name: str, entry: Entry, known: Mapping[str, Entry], declared: Mapping[str, Entry]
) -> str:
    alike = [
        new for new, one in declared.items() if new not in known and one["kind"] == entry["kind"]
    ]
    said = [f"if its name is {new!r} now, say renamed={{{name!r}: {new!r}}}" for new in alike]
    said.append(f"if it is not needed any more, say forget={{{name!r}}}")
    choice = "; ".join(said)
    return f"Its rows would be abandoned silently: {choice}"


def _topic_changes(
    stored: Mapping[str, Entry], declared: Mapping[str, Entry], decisions: MigrationOptions
) -> Iterator[SpecChange]:
    for name, entry in stored.items():
        subject = f"topic {name!r}"
        if name not in declared:
            is_decided = name in decisions.forget
            verdict = Verdict.COMPATIBLE if is_decided else Verdict.DECISION
            meaning = _TOPIC_FORGOTTEN if is_decided else _TOPIC_GONE.format(name=name)
            yield SpecChange(verdict, subject, "topic", "repartition", None, meaning)
            continue
        counts = (entry["partitions"], declared[name]["partitions"])
        if counts[0] != counts[1]:
            yield SpecChange(Verdict.REFUSED, subject, "partitions", *counts, _COUNT)
        if is_placed_otherwise(entry, declared[name]):
            places = ("by the key inside its window", "by the whole key")
            meaning = _PLACED_WITHOUT_WINDOWS
            yield SpecChange(Verdict.REFUSED, subject, "placement", *places, meaning)
        for part in ("key", "value"):
            yield from serde_changes(subject, part, entry.get(part), declared[name][part])


def is_placed_otherwise(stored: Entry, declared: Entry) -> bool:
    """Return whether keys in a repartition topic, and downstream, would be placed otherwise."""
    if HASHES_WINDOWS in stored or HASHES_WINDOWS not in declared:
        return False
    return bool(windows_of(stored["key"])) and stored["partitions"] > 1


def _change(verdict: Verdict, store: str, stored: Any, declared: Any, meaning: str) -> SpecChange:
    return SpecChange(verdict, f"store {store!r}", "store", stored, declared, meaning)
