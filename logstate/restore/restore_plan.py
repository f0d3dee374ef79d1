"""Decide where a task starts to read and what its stores must replay before it may run.

A task resumes at its committed offsets. A missing committed offset is allowed only if no state
exists yet; then the source's reset policy applies. If offsets expired, or point outside a topic,
while the changelogs have state, rereading would silently count records again, so the application
stops and the error names ``logstate reset``.

A committed offset outside its topic means that unprocessed records are gone, with or without state.
The reset policy does not apply then, because it would skip records that still exist. Depending on
``on_data_loss`` the application stops, or it continues at the first existing record.

A store's target is the READ UNCOMMITTED end of the changelog, read after the committed offsets: all
records that an earlier owner may still have in flight are below it. The log is read with READ
COMMITTED and the replay is done when the consumer's POSITION reaches the target, because markers,
aborted records and compacted holes leave no record to wait for.

If a source topic serves as changelog, the target is the committed offset: later records enter the
store by processing. No record at or beyond the target is taken (``within``), so a restored store is
exactly at its target.

Local rows are kept if they still belong to the changelog, which is the normal case after a crash.
They are discarded (``StoreCorruptedError``, the task's directory is rebuilt) only if
- the changelog is not the topic that they were built from (topic id),
- their position is beyond the end of the log (truncated or recreated),
- a source topic is the changelog and their position is beyond the committed offset: the rows are
  newer than the records that the task continues with,
- they lack records that committed state needs and that the log no longer has
  (:mod:`missing_records`),
- they are behind by more than half of the time for which the changelog keeps tombstones
  (delete.retention.ms; the other half is the margin for clock differences and for the replay), or
- the replay was so slow that it used up that margin (``check_replay``).

Even then rows are discarded only after the log is known to have every record that a rebuild needs.
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

#: Kafka's default for delete.retention.ms: how long a tombstone is kept at least
TOMBSTONE_LIFETIME_MS = 86_400_000
#: whatever the setting, the log cleaner removes a tombstone no sooner than this after its write
_WHOLE_REPLAY_MS = 60_000
#: suffix of an operator's store name -> suffix of the operator's clock name
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
    """Return the offset where a store's replay starts; raise StoreCorruptedError for a rebuild.

    ``committed``: if a source topic is the changelog, the committed offset of the task.
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
            f" {committed} of its task: the offset was set back, or the directory belongs to"
            " another group"
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
            " now: the clock was wrong then, or is now. The age of the rows is unknown, and"
            " deletions that they missed may have been compacted away"
        )
    if is_behind and meta.caught_up_at_ms and age_ms > tombstone_lifetime_ms // 2:
        raise StoreCorruptedError(
            f"store {store!r} was last at the end of {changelog} {age_ms // 60_000} minutes ago,"
            f" which keeps deletions for {tombstone_lifetime_ms // 60_000} minutes: those that it"
            " missed may have been compacted away"
        )
    return max(position, log.start)  # records in between are not needed


def target_of(log: LogRange, committed: int | None) -> int:
    """Return the offset that a replay must reach; ``committed`` as for :func:`first_offset`."""
    return log.end if committed is None else min(log.end, committed)


def within(records: Sequence[FetchedRecord], position: int, target: int) -> Sequence[FetchedRecord]:
    """Return the fetched records from the replay's position up to its target.

    Records below the position were fetched before the consumer was reassigned.
    """
    if _offset(records[0]) >= position and _offset(records[-1]) < target:
        return records  # the usual case
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
    """Check that no tombstone was removed before a finished replay could read it.

    ``since_ms``: when the rows that it started with were last at the end of the log; for a replay
    of the whole log (``is_whole``), when it began. Kafka keeps a deletion since then for the
    tombstone lifetime, so a faster replay has read it; a tenth is reserved for clock differences.
    The lifetime may be configured as 0: a whole replay always has a minute, because the cleaner
    must pass twice before it removes a tombstone, and passes at most every 15 s
    (log.cleaner.backoff.ms).

    Raises StoreCorruptedError to request a rebuild; RestoreError if this was already a rebuild.
    """
    took_ms = now_ms - since_ms
    limit_ms = tombstone_lifetime_ms - tombstone_lifetime_ms // 10
    if took_ms <= (max(limit_ms, _WHOLE_REPLAY_MS) if is_whole else limit_ms):
        return
    found = (
        f"store {store!r}: reading {changelog} to its end took {took_ms // 60_000} minutes, and the"
        f" topic keeps deletions for {tombstone_lifetime_ms // 60_000} minutes: some may have been"
        " compacted away before they were read, and deleted rows would come back"
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
    """Return the offset to start at; raise RestoreError if no offset would be correct.

    ``reset`` is "earliest", "latest", "none" or a duration before now (KIP-1106), for which
    ``offset_at_reset`` is the first offset of that time; it applies if nothing is committed.
    ``doubt``: text naming another application that the state may belong to. ``on_data_loss``: what
    to do if the committed offset is outside the log; "continue" never skips an existing record.
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
    continues = on_data_loss == "continue" and reset != "none"
    if offset is not None and continues and (offset < log.start or not has_state):
        return log.start
    if has_state:
        raise RestoreError(
            f"input {partition}: {problem}, while the changelogs of its task hold state; {cause}."
            f" Reading from any other position would count records twice or not at all. {doubt}"
            + _recovery_options(partition, offset, log)
        )
    if reset == "none":
        raise RestoreError(
            f"input {partition}: {problem} and its source has offset_reset='none'; commit an"
            " offset, or choose 'earliest' or 'latest'"
        )
    if offset is not None:
        raise RestoreError(
            f"input {partition}: {problem}; {cause}. {lost_records(offset, log)} offset_reset does"
            " not apply to this case. Set on_data_loss='continue' to continue at the first"
            f" existing record, {log.start}; or stop the application, run `kafka-consumer-groups"
            " --reset-offsets --group APPLICATION_ID --topic"
            f" {partition.topic}:{partition.partition} --to-offset N --execute` with the offset N"
            " to continue at, and start it again"
        )
    if reset == "latest":
        return log.end
    if isinstance(reset, timedelta):
        return log.end if offset_at_reset is None else offset_at_reset
    return log.start


def lost_records(offset: int, log: LogRange) -> str:
    """Describe the missing records for a committed ``offset`` outside the log."""
    if offset < log.start:
        return (
            f"Records {offset} to {log.start - 1} were not processed and are gone: retention or a"
            " tool deleted them."
        )
    return (
        f"The log was truncated at {log.end} or the topic was created again: records before"
        f" {offset} are gone, and the existing ones may or may not have been processed."
    )


def doubt_about(shared_changelogs: Mapping[str, str]) -> str:
    """Return a warning that the state may belong to another application with the same topics."""
    return "".join(
        f"Changelog {topic!r} may belong to another application: application {other!r} exists and"
        f" has the same topic for a store {store_of(other, topic)!r}. If so, give this application"
        " another application_id, or its store another name; `logstate reset` would delete the"
        f" state of {other!r}. Otherwise: "
        for topic, other in shared_changelogs.items()
    )


def _recovery_options(partition: TopicPartition, offset: int | None, log: LogRange) -> str:
    """Describe what the user can do. Both options are covered by tests."""
    if offset is not None and offset < log.start:
        right, gone = str(log.start), f": records {offset} to {log.start - 1} are gone and skipped"
        gone += " (on_data_loss='continue' does the same for every input, with an ERROR in the log)"
    else:
        right, gone = "N", ", where N is the first record that the state does not include yet"
        if offset is not None:
            gone += f" ({log.start} for a topic that was recreated)"
    return (
        "To keep the state, stop the application and run `kafka-consumer-groups --reset-offsets"
        f" --group APPLICATION_ID --topic {partition.topic}:{partition.partition} --to-offset"
        f" {right} --execute`{gone}. To start from scratch, run `logstate reset`, which deletes the"
        " state; records that the inputs no longer hold cannot be recovered"
    )


def decoded(committed: Committed) -> OffsetMetadata:
    """Decode the metadata committed with an offset; empty if there is no offset."""
    if committed.offset is None:
        return OffsetMetadata()
    return decode_cut(committed.metadata, committed_offset=committed.offset)


def was_read(topic: str, committed: Committed, metadata: Iterable[OffsetMetadata]) -> bool:
    """Return True if the task has read the topic: it has an offset, or nothing shows otherwise.

    ``metadata`` was committed with all inputs of the task. A topic that a pattern matches, or that
    was added to a stream, since the last commit does not belong to any state yet: the cut does not
    name it. Kafka Streams on the JVM commits only inputs that had a record, so if it was the last
    to commit the other inputs, it has never read this one.
    """
    if committed.offset is not None:
        return True
    entries = list(metadata)
    known = [one.cut.topic_ids for one in entries if one.cut is not None]
    if any(known):
        return any(topic in topic_ids for topic_ids in known)
    return not any(one.is_of_kafka_streams for one in entries)


def counting_cuts(
    metadata: Mapping[TopicPartition, OffsetMetadata],
    committed: Mapping[TopicPartition, Committed],
) -> dict[TopicPartition, Cut]:
    """Return the cuts of a task's inputs: of all inputs with an offset, or none at all.

    A commit writes an offset and the cut for each input of the task. If an input has an offset
    without a cut, another program has committed since: Kafka Streams on the JVM, which does not
    commit inputs without records, or a tool that moved one input. The other inputs then carry the
    cut of an outdated state; its clocks would be earlier than the results emitted since.

    An input without an offset is new (a pattern matches it now, or a stream was added), unless the
    cut names it: then its offset was deleted.
    """
    cuts: dict[TopicPartition, Cut] = {}
    for tp, entry in metadata.items():
        if entry.cut is not None:
            cuts[tp] = entry.cut
        elif committed[tp].offset is not None:
            return {}
    known = {topic for cut in cuts.values() for topic in cut.topic_ids}
    if any(tp.topic in known for tp in metadata.keys() - cuts.keys()):
        return {}
    return cuts


def joined_cut(cuts: Iterable[Cut]) -> Cut | None:
    """Join the cuts of a task's inputs; None if there is no cut.

    All inputs carry the same cut. If the topology has changed, they may have belonged to several
    tasks: then the largest value of each clock and position applies, because they only increase.
    """
    joined = None
    for cut in cuts:
        joined = cut if joined is None else _later_cut(joined, cut)
    return joined


def _later_cut(one: Cut, other: Cut) -> Cut:
    def joined(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
        return {**b, **{name: max(at, b.get(name, at)) for name, at in a.items()}}

    return one._replace(
        positions=joined(one.positions, other.positions),
        clocks=joined(one.clocks, other.clocks),
        begins=joined(one.begins, other.begins),
        local_rows=joined(one.local_rows, other.local_rows),
    )


def check_topic_ids(metadata: OffsetMetadata, topic_ids: Mapping[str, str]) -> None:
    """Raise RestoreError if an input was recreated since the cut was written."""
    if metadata.cut is None:
        return
    for topic, known in metadata.cut.topic_ids.items():
        now = topic_ids.get(topic)
        if now is not None and now != known:
            raise RestoreError(
                f"topic {topic!r} was deleted and created again (topic id {known}, now {now}):"
                " committed offsets and state belong to the old topic. To keep the state and read"
                " the new topic from its start, stop the application and run"
                f" `kafka-consumer-groups --reset-offsets --group APPLICATION_ID --topic {topic}"
                " --to-earliest --execute`; to start from scratch, run `logstate reset`, which"
                " deletes the state"
            )


def clocks_under_new_names(
    clocks: Mapping[str, int], formerly: Mapping[str, Collection[str]]
) -> Mapping[str, int]:
    """Return the clocks of a cut under the current names of renamed stores.

    ``formerly`` maps a store to all its former names. A clock is named ``kind:store`` or
    ``kind:store:group``; the clocks of joins and of ``suppress`` are named after the common prefix
    of their store names.

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
