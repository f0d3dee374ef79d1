"""Where a task begins to read, and what its stores must replay before it may run. Pure.

A task reads on from its committed offsets. "No committed offset" is a decision, not an accident: it
is only allowed where no state exists yet, and then the reset policy of the source counts. Offsets
that expired, or that point outside a topic, while the changelogs hold state would silently count
everything again, so the application stops and names ``logstate reset``.

A committed offset outside its topic means that records are gone which were not processed, with or
without state. The reset policy does not decide then: it would skip records that are there. By
``on_data_loss`` the application stops, or it reads on at the first record that is there.

A store's target is the end of the changelog as READ UNCOMMITTED, taken after the committed offsets:
every record an earlier owner could still have in flight lies below it. It is read with READ
COMMITTED and done when the consumer's POSITION reaches it: markers, aborted records and compacted
holes leave no record to wait for.

Where a source topic serves as changelog the target is the committed offset: what lies behind it
enters by processing. Never is a record at or beyond the target taken (``within``), so a store that
is restored stands at its target exactly.

The local rows are kept wherever their identity holds, which is the normal case after a crash. They
are given up (``StoreCorruptedError``, the task's directory is rebuilt) only when
- the changelog is another topic than the one they came from (topic id),
- their position lies beyond the end of the log (truncated or recreated),
- their position lies beyond the committed offset, where the changelog is a source topic: the rows
  are newer than what the task goes on with,
- they lack records that committed state needs and the log no longer has (:mod:`missing_records`),
- they missed more than half of the time for which the changelog promises to keep tombstones
  (delete.retention.ms; the other half is the margin for clocks and for the replay itself), or
- the replay was so slow that it used up that margin (``check_replay``).

Even then nothing is given up before the log is known to have every record that a rebuild needs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta

from logstate.changelog.cut import Cut, OffsetMetadata, decode_cut
from logstate.changelog.stored_meta import StoredMeta
from logstate.contracts.clients import Committed
from logstate.contracts.errors import RestoreError, StoreCorruptedError
from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.contracts.topic_names import store_of
from logstate.contracts.worker_config import OnDataLoss
from logstate.restore.missing_records import LogRange, Needed, lost_beginning

#: Kafka's default delete.retention.ms: how long a tombstone is promised to stay
TOMBSTONE_LIFETIME_MS = 86_400_000
#: whatever the setting, no cleaner removes a tombstone sooner than this after it was written
_WHOLE_REPLAY_MS = 60_000
#: how the name of an operator's store ends, and that of a clock of the operator
_CLOCKS_OF_OPERATORS = (
    ("-store", ""),
    ("-this-join-store", "-merge"),
    *(
        (f"-{kind}-shared-join-store", f"-stream-time{clock}")
        for kind in ("left", "outer")
        for clock in ("", "-watched", "-next-look")
    ),
)


def first_offset(
    store: str,
    changelog: TopicPartition,
    position: int | None,
    log: LogRange,
    *,
    meta: StoredMeta,
    topic_id: str | None,
    now_ms: int,
    needed: Needed,
    committed: int | None = None,
    tombstone_lifetime_ms: int = TOMBSTONE_LIFETIME_MS,
) -> int:
    """Where the replay of a store starts; raises StoreCorruptedError to ask for a rebuild.

    ``committed``: where a source topic is the changelog, the offset at which the task reads on.
    """
    if position is None:
        return log.start
    known_id = meta.topic_ids.get(store)
    if known_id is not None and topic_id is not None and known_id != topic_id:
        raise StoreCorruptedError(
            f"store {store!r} was built from another incarnation of {changelog.topic!r} (topic id"
            f" {known_id}, now {topic_id}): the topic was deleted and created again, or the state"
            " was moved to other partitions"
        )
    if position > log.end:
        raise StoreCorruptedError(
            f"store {store!r} is at offset {position} of {changelog}, beyond its end {log.end}: the"
            " log was truncated or the directory comes from another cluster"
        )
    if committed is not None and position > committed:
        raise StoreCorruptedError(
            f"store {store!r} is at offset {position} of {changelog}, beyond the committed offset"
            f" {committed} that its task reads on from: the offset was set back, or the directory"
            " belongs to another group"
        )
    lost = lost_beginning(log, needed, LogRange(meta.begins.get(store, 0), position))
    if lost is not None:
        raise StoreCorruptedError(
            f"store {store!r} is at offset {position} of {changelog}, and is not complete: {lost}"
        )
    age_ms = now_ms - meta.caught_up_at_ms
    is_behind = position < (log.end if needed.end is None else min(log.end, needed.end))
    if is_behind and age_ms < -tombstone_lifetime_ms // 10:
        raise StoreCorruptedError(
            f"store {store!r} was last at the end of {changelog} {-age_ms // 60_000} minutes from"
            " now: the clock was wrong then, or is now. How old the rows are is not known, and"
            " deletions that they missed may have been compacted away"
        )
    if is_behind and meta.caught_up_at_ms and age_ms > tombstone_lifetime_ms // 2:
        raise StoreCorruptedError(
            f"store {store!r} was last at the end of {changelog} {age_ms // 60_000} minutes ago,"
            f" which keeps deletions for {tombstone_lifetime_ms // 60_000}: those it missed may"
            " have been compacted away"
        )
    return max(position, log.start)  # what is between them is not needed


def target_of(log: LogRange, committed: int | None) -> int:
    """What a replay has to reach; ``committed`` as for :func:`first_offset`."""
    return log.end if committed is None else min(log.end, committed)


def within(records: Sequence[FetchedRecord], position: int, target: int) -> Sequence[FetchedRecord]:
    """The records that a replay takes, of those fetched: from its position up to its target.

    Those below were fetched before the consumer was assigned anew.
    """
    if _offset(records[0]) >= position and _offset(records[-1]) < target:
        return records  # nearly always
    begin = bisect_left(records, position, key=_offset)
    return records[begin : bisect_left(records, target, lo=begin, key=_offset)]


def check_replay(
    store: str,
    changelog: TopicPartition,
    *,
    since_ms: int,
    now_ms: int,
    is_whole: bool,
    tombstone_lifetime_ms: int = TOMBSTONE_LIFETIME_MS,
) -> None:
    """A replay that is over must not have been overtaken by the removal of tombstones.

    ``since_ms``: when the rows it began with were last at the end of the log; of a replay of the
    ``is_whole`` log, when it began. A deletion since then is kept until the lifetime is over, so a
    replay that was quicker has seen it; a tenth is left for clocks. A lifetime of 0 is a setting,
    too: a whole replay has a minute in any case, since the cleaner comes twice before a tombstone
    goes, and at most every 15 s (log.cleaner.backoff.ms).

    Raises StoreCorruptedError to ask for a rebuild; RestoreError where that was one already.
    """
    took_ms = now_ms - since_ms
    limit_ms = tombstone_lifetime_ms - tombstone_lifetime_ms // 10
    if took_ms <= (max(limit_ms, _WHOLE_REPLAY_MS) if is_whole else limit_ms):
        return
    found = (
        f"store {store!r}: {took_ms // 60_000} minutes went by until {changelog} was read to its"
        f" end, which keeps deletions for {tombstone_lifetime_ms // 60_000}: some may have been"
        " compacted away unread, and deleted rows would come back"
    )
    if not is_whole:
        raise StoreCorruptedError(found)
    raise RestoreError(
        f"{found}. The log is too long, or is read too slowly: raise delete.retention.ms of the"
        " topic to several times that"
    )


def start_position(
    partition: TopicPartition,
    committed: Committed,
    log: LogRange,
    *,
    reset: str | timedelta | None,
    offset_at_reset: int | None,
    has_state: bool,
    doubt: str = "",
    on_data_loss: OnDataLoss = "fail",
) -> int:
    """The offset to begin at; raises RestoreError where no answer would be right.

    ``reset`` is "earliest", "latest", "none" or a duration back from now (KIP-1106), for which
    ``offset_at_reset`` is the first offset of that time; it counts where nothing is committed.
    ``doubt``: whose state it may be instead. ``on_data_loss``: what follows where the committed
    offset is outside the log; "continue" never skips a record that is there.
    """
    offset = committed.offset
    if offset is not None and log.start <= offset <= log.end:
        return offset
    if offset is None:
        problem = "nothing is committed"
        cause = "the offsets expired, or the group was deleted"
    else:
        problem = f"offset {offset} is committed, but the log holds {log.start} to {log.end}"
        cause = "retention overtook a stopped application, or the topic was recreated"
    goes_on = on_data_loss == "continue" and reset != "none"
    if offset is not None and goes_on and (offset < log.start or not has_state):
        return log.start
    if has_state:
        raise RestoreError(
            f"input {partition}: {problem}, while the changelogs of its task hold state; {cause}."
            f" Reading from anywhere else would count records twice or not at all. {doubt}"
            + _ways_on(partition, offset, log)
        )
    if reset == "none":
        raise RestoreError(
            f"input {partition}: {problem} and its source says offset_reset='none'; commit an"
            " offset, or choose 'earliest' or 'latest'"
        )
    if offset is not None:
        raise RestoreError(
            f"input {partition}: {problem}; {cause}. {lost_records(offset, log)} No offset_reset"
            " applies to that. Set on_data_loss='continue' to read on at the first record that is"
            f" there, {log.start}; or stop the application, run `kafka-consumer-groups"
            f" --reset-offsets --group APPLICATION_ID --topic {partition.topic}:"
            f"{partition.partition} --to-offset N --execute` with the offset N to read on at, and"
            " start it again"
        )
    if reset == "latest":
        return log.end
    if isinstance(reset, timedelta):
        return log.end if offset_at_reset is None else offset_at_reset
    return log.start


def lost_records(offset: int, log: LogRange) -> str:
    """What is known of the records that are gone, where ``offset`` is committed outside the log."""
    if offset < log.start:
        return (
            f"Records {offset} to {log.start - 1} were not processed and are gone: retention or a"
            " tool deleted them."
        )
    return (
        f"The log was truncated at {log.end} or the topic was created again: records before"
        f" {offset} are gone, and those that are there may have been processed or not."
    )


def doubt_about(shared_changelogs: Mapping[str, str]) -> str:
    """That state may be another application's, by the names of its changelogs."""
    return "".join(
        f"Changelog {topic!r} may be another's: application {other!r}, which is there, has the same"
        f" topic for a store {store_of(other, topic)!r}. If so, give this application another"
        f" application_id, or its store another name; `logstate reset` would delete the"
        f" state of {other!r}. Only if not: "
        for topic, other in shared_changelogs.items()
    )


def _ways_on(partition: TopicPartition, offset: int | None, log: LogRange) -> str:
    """What to do where nobody else can tell; each of both was tried by a test."""
    if offset is not None and offset < log.start:
        right, gone = str(log.start), f": records {offset} to {log.start - 1} are gone, and missed"
        gone += " (on_data_loss='continue' does the same for every input, with an ERROR in the log)"
    else:
        right, gone = "N", ", where N is the first record that it does not hold yet"
        if offset is not None:
            gone += f" ({log.start} of a topic that was recreated)"
    return (
        "To keep the state, stop the application and run `kafka-consumer-groups --reset-offsets"
        f" --group APPLICATION_ID --topic {partition.topic}:{partition.partition} --to-offset"
        f" {right} --execute`{gone}. To begin anew, run `logstate reset`, which deletes the state;"
        " what the inputs no longer hold does not come back"
    )


def decoded(committed: Committed) -> OffsetMetadata:
    """What was committed with an offset; nothing where there is no offset."""
    if committed.offset is None:
        return OffsetMetadata()
    return decode_cut(committed.metadata, committed_offset=committed.offset)


def was_read(topic: str, committed: Committed, metadata: Iterable[OffsetMetadata]) -> bool:
    """Whether the task has read the topic: it has an offset, or nobody tells otherwise.

    ``metadata`` is what was committed with all inputs of the task. A topic that a pattern matches,
    or that was added to a stream, since the last commit belongs to no state yet: the cut does not
    name it. Kafka Streams on the JVM commits only what has brought a record: where it committed
    other inputs last, this one never has.
    """
    if committed.offset is not None:
        return True
    told = list(metadata)
    known = [one.cut.topic_ids for one in told if one.cut is not None]
    if any(known):
        return any(topic in topic_ids for topic_ids in known)
    return not any(one.is_of_kafka_streams for one in told)


def counting_cuts(
    metadata: Mapping[TopicPartition, OffsetMetadata],
    committed: Mapping[TopicPartition, Committed],
) -> dict[TopicPartition, Cut]:
    """The cuts of a task's inputs: of all that have an offset, or none at all.

    A commit writes an offset and the cut for every input of the task. Where one input has an offset
    without it, somebody else has committed since: Kafka Streams on the JVM, which leaves inputs
    alone that brought no record, or a hand that moved one input. What the other inputs carry is the
    cut of a state that is no more; its clocks would stand before what was emitted meanwhile.

    An input without an offset is new (a pattern matches it now, a stream was added), unless the cut
    knows it: then its offset was deleted.
    """
    cuts: dict[TopicPartition, Cut] = {}
    for tp, told in metadata.items():
        if told.cut is not None:
            cuts[tp] = told.cut
        elif committed[tp].offset is not None:
            return {}
    known = {topic for cut in cuts.values() for topic in cut.topic_ids}
    if any(tp.topic in known for tp in metadata.keys() - cuts.keys()):
        return {}
    return cuts


def joined_cut(cuts: Iterable[Cut]) -> Cut | None:
    """The one cut of a task; None where there is none.

    Its inputs carry the same one. Where the topology has changed, they may have belonged to several
    tasks: then the largest of every clock and position counts, since they all only grow.
    """
    joined = None
    for cut in cuts:
        joined = cut if joined is None else _larger(joined, cut)
    return joined


def _larger(one: Cut, other: Cut) -> Cut:
    def joined(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
        return {**b, **{name: max(at, b.get(name, at)) for name, at in a.items()}}

    return one._replace(
        positions=joined(one.positions, other.positions),
        clocks=joined(one.clocks, other.clocks),
        begins=joined(one.begins, other.begins),
        local_rows=joined(one.local_rows, other.local_rows),
    )


def check_topic_ids(metadata: OffsetMetadata, topic_ids: Mapping[str, str]) -> None:
    """The inputs must be the topics the cut was written for; raises RestoreError."""
    if metadata.cut is None:
        return
    for topic, known in metadata.cut.topic_ids.items():
        now = topic_ids.get(topic)
        if now is not None and now != known:
            raise RestoreError(
                f"topic {topic!r} was deleted and created again (topic id {known}, now {now}):"
                " committed offsets and state belong to the old one. To keep the state and read the"
                " new topic from its start, stop the application and run `kafka-consumer-groups"
                f" --reset-offsets --group APPLICATION_ID --topic {topic} --to-earliest --execute`;"
                " to begin anew, run `logstate reset`, which deletes the state"
            )


def clocks_under_new_names(
    clocks: Mapping[str, int], formerly: Mapping[str, Collection[str]]
) -> Mapping[str, int]:
    """The clocks of a cut, as stores are called that were renamed since.

    ``formerly`` is store to all names that it had before. A clock is called ``kind:store`` or
    ``kind:store:group``; those of joins and of ``suppress`` are called after the name that the
    names of their stores begin with.

    >>> clocks_under_new_names({"store:old": 7, "observed:old:1": 5}, {"new": ["old"]})
    {'store:new': 7, 'observed:new:1': 5}
    >>> clocks_under_new_names({"old": 7}, {"new-store": ["old-store"]})
    {'new': 7}
    """
    if not formerly:
        return clocks
    new_names = {old: new for new, names in formerly.items() for old in names}
    operators = dict[str, str]()
    for old, new in new_names.items():
        for store, clock in _CLOCKS_OF_OPERATORS:
            if old.endswith(store) and new.endswith(store):
                operators[old.removesuffix(store) + clock] = new.removesuffix(store) + clock
    found = {}
    for name, time_ms in clocks.items():
        kind, _, rest = name.partition(":")
        store, colon, group = rest.partition(":")
        if store in new_names:
            found[f"{kind}:{new_names[store]}{colon}{group}"] = time_ms
        else:
            found[operators.get(name, name)] = time_ms
    return found


def _offset(record: FetchedRecord) -> int:
    offset = record.offset()
    assert offset is not None
    return offset
