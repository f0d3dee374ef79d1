"""The cut: what a committed offset says about the state that belongs to it.

How it works: every commit of a task stores, with the offset of each of its input partitions, a
metadata string. It is base64 of two blocks, one after the other::

    byte 2 | 8B partition time | 4B count | count x (4B length, UTF-8 name, 8B value)
    byte 'L' | byte 1 | msgpack map

All integers are big endian. The first block is Kafka Streams' own (version 2), so either library
reads the other's offsets; the JVM ignores the second block, and drops it at its next commit.
The second block is ours::

    o  the input offset it was written for
    t  {topic: topic id}            which incarnation of each topic the offsets belong to
    c  {clock name: ms}             every clock that decides a result, and ``rows:STORE``, how many
                                    rows a store has; schedules in the order of their heaps
    p  {changelog topic: position}  the next offset of the changelog, for the task's partition
    b  {changelog topic: offset}    the first record that the state needs, where that is not 0
    u  {store: number}              of stores whose rows are on a local disk only, the number of
                                    this commit; absent where there are none
    w  [transactional id, member id]  who wrote it; absent if unknown
    x  true: only "o", "w" and the clocks ``open:…`` are here; the rest is in the cuts topic (it was
       over the size limit)

The clocks ``open:…`` say, to tasks of other sub-topologies, what will still be sent on idle inputs.

The record in the cuts topic (key ``cut:<task id>``, same transaction) is our block as raw bytes
with ``i``, {input topic: offset}, in place of ``o``. Tasks whose results reach stores of others
write one with the first commit after each start: it shows which inputs the task has read, also
after the committed offsets were deleted.

Invariants:

- A block counts only for the very offset it was written for. After a JVM instance, a reset tool or
  anything else committed another offset, it is stale and decodes to no cut.
- A task has a cut only where all its inputs that have an offset carry one; else some were committed
  by another process since, and the cut of the others is old (``restore_plan.counting_cuts``).
- Metadata that no stream processor wrote decodes to an unknown partition time and no cut.
- A block of a newer version is refused, never ignored: ignoring it would lose clocks silently.

Not responsible for: choosing positions, or reading and writing offsets.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec

from logstate.contracts.errors import UNDECODABLE, RestoreError
from logstate.contracts.records import TaskId

UNKNOWN_TIME_MS: Final = -1
"""Partition time before any record was seen, as in Kafka Streams."""

METADATA_BYTES_MAX: Final = 3072
"""Longest metadata string that is committed. A broker refuses more than 4,096 bytes for ever."""

OPEN_CLOCK: Final = "open:"
"""What the names of clocks begin with that a pointer to the cuts topic has, too."""

MANIFEST_KEY: Final = b"manifest"
"""Key of the manifest record in the cuts topic."""

_T = TypeVar("_T")
#: what a block of ours holds; checked before anything uses a value
_Position = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Time = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Fields(msgspec.Struct):
    """Every field of a block; which of them are there depends on what it is."""

    o: _Position | None = None
    i: dict[str, _Position] | None = None
    t: dict[str, str] = {}
    c: dict[str, _Time] = {}
    p: dict[str, _Position] = {}
    b: dict[str, _Position] = {}
    u: dict[str, _Position] = {}
    w: tuple[str, str] | None = None
    x: bool = False


_DECODER = msgspec.msgpack.Decoder(_Fields)
_STREAMS_VERSION = 2
_HEADER = struct.Struct(">bq")
_COUNT = struct.Struct(">i")
_TIME = struct.Struct(">q")
_MARK = 0x4C
_VERSION = 1
_PREFIX = bytes((_MARK, _VERSION))


class Writer(NamedTuple):
    """The committer: if it dies, waiting tasks know the transactional id to fence."""

    transactional_id: str
    member_id: str
    """Its member id in the consumer group."""


class Cut(NamedTuple):
    """The state of a task at one committed offset of one of its input partitions."""

    offset: int
    """The input offset this cut was written for."""
    positions: Mapping[str, int] = {}
    """Changelog topic to next offset, all for the task's partition."""
    clocks: Mapping[str, int] = {}
    """Clock name to milliseconds."""
    topic_ids: Mapping[str, str] = {}
    """Topic to the id of its incarnation, as text."""
    is_in_cuts_topic: bool = False
    """True: this is only a pointer; the content is in the cuts topic."""
    writer: Writer | None = None
    begins: Mapping[str, int] = {}
    """Changelog topic to the first record that the state needs. Every commit names the changelogs
    of windowed stores and source topics that serve as changelogs; of others an offset above 0."""
    local_rows: Mapping[str, int] = {}
    """Store without a changelog to the number of this commit. The rows that belong to the offset
    are in the directory that has this number, of the same writer."""


class OffsetMetadata(NamedTuple):
    """Everything a committed offset's metadata string says."""

    partition_time_ms: int = UNKNOWN_TIME_MS
    """Largest event time seen in the input partition; -1 when unknown."""
    processor_times: Mapping[str, int] = {}
    """Kafka Streams' own map of named times."""
    cut: Cut | None = None
    """None when the offset carries no block of ours, or a stale one."""

    @property
    def is_of_kafka_streams(self) -> bool:
        """Whether the JVM library committed last: its times are there, and no cut of ours."""
        return self.cut is None and self.partition_time_ms != UNKNOWN_TIME_MS


class TaskCut(NamedTuple):
    """The data that one commit of one task writes."""

    metadata: Mapping[str, str]
    """Input topic to the metadata string to commit with its offset."""
    record: bytes | None
    """Value for the cuts topic under ``cut_key(task)``, in the same transaction; usually None."""


def cut_key(task: TaskId) -> bytes:
    """Key of a task's record in the cuts topic."""
    return f"cut:{task}".encode()


def encode_cut(
    cut: Cut,
    *,
    partition_time_ms: int = UNKNOWN_TIME_MS,
    processor_times: Mapping[str, int] | None = None,
) -> str:
    """The metadata string for ``cut.offset``. Length is the caller's business: ``encode_task_cut``.

    >>> decode_cut(encode_cut(Cut(7, {"app-s-changelog": 12})), committed_offset=7).cut.positions
    {'app-s-changelog': 12}
    """
    streams = _encode_streams_block(partition_time_ms, processor_times or {})
    fields: dict[str, Any] = {"o": cut.offset, **_content(cut)}
    if cut.is_in_cuts_topic:
        fields = {"o": cut.offset, "x": True}
        if cut.clocks:
            fields["c"] = dict(cut.clocks)
    if cut.writer is not None:
        fields["w"] = cut.writer
    return base64.b64encode(streams + _encode_block(fields)).decode("ascii")


def decode_cut(metadata: str | None, *, committed_offset: int) -> OffsetMetadata:
    """Return what ``metadata`` contains about ``committed_offset``.

    Raises RestoreError for a block that a newer version wrote or that is damaged. Text that is not
    of this format at all (another tool's note) decodes to ``OffsetMetadata()``.
    """
    try:
        data = base64.b64decode(metadata or "", validate=True)
        partition_time_ms, processor_times, rest = _decode_streams_block(data)
    except (binascii.Error, struct.error, ValueError):
        return OffsetMetadata()
    if not rest.startswith(_PREFIX[:1]):
        return OffsetMetadata(partition_time_ms, processor_times)
    fields = _decode_block(rest)
    if fields.o is None:
        raise _damaged("it names no input offset")
    cut = _cut(fields.o, fields) if fields.o == committed_offset else None
    return OffsetMetadata(partition_time_ms, processor_times, cut)


def encode_cut_record(cut: Cut, input_offsets: Mapping[str, int]) -> bytes:
    """Value of the record in the cuts topic; ``input_offsets`` is input topic to offset."""
    return _encode_block({"i": _in_order(input_offsets), **_content(cut)})


def decode_cut_record(value: bytes, *, topic: str, committed_offset: int) -> Cut | None:
    """The cut in a record of the cuts topic, or None if it was written for another offset.

    Raises RestoreError as ``decode_cut`` does.
    """
    fields = _decode_block(value)
    if _inputs(fields).get(topic) != committed_offset:
        return None
    return _cut(committed_offset, fields)


def topics_of_record(value: bytes) -> frozenset[str]:
    """The input topics whose offsets were committed with a record of the cuts topic.

    Raises RestoreError as ``decode_cut`` does.

    >>> sorted(topics_of_record(encode_cut_record(Cut(7), {"clicks": 7, "orders": 3})))
    ['clicks', 'orders']
    """
    return frozenset(_inputs(_decode_block(value)))


def _inputs(fields: _Fields) -> dict[str, _Position]:
    if fields.i is None:
        raise _damaged("the record in the cuts topic names no input offsets")
    return fields.i


def encode_task_cut(
    inputs: Mapping[str, tuple[int, int]],
    *,
    positions: Mapping[str, int],
    clocks: Mapping[str, int],
    topic_ids: Mapping[str, str],
    processor_times: Mapping[str, int] | None = None,
    writer: Writer | None = None,
    begins: Mapping[str, int] | None = None,
    local_rows: Mapping[str, int] | None = None,
    with_record: bool = False,
) -> TaskCut:
    """Return the cut of a commit: a string per input topic, and a record if they are too long.

    ``inputs`` is input topic to (next offset, partition time in ms). Every input partition carries
    the whole cut, so a reader needs only one of them. ``processor_times`` are for Kafka Streams
    alone; so many that they do not fit are left out (it could not commit them either).
    ``with_record``: there is a record in any case.
    """
    whole = {
        topic: Cut(
            offset,
            positions,
            clocks,
            topic_ids,
            writer=writer,
            begins=begins or {},
            local_rows=local_rows or {},
        )
        for topic, (offset, _) in inputs.items()
    }
    times = {topic: time_ms for topic, (_, time_ms) in inputs.items()}
    metadata = _encode_all(whole, times, processor_times)
    offsets = {topic: cut.offset for topic, cut in whole.items()}
    if max(map(len, metadata.values()), default=0) <= METADATA_BYTES_MAX:
        has_record = with_record and bool(whole)
        record = encode_cut_record(next(iter(whole.values())), offsets) if has_record else None
        return TaskCut(metadata, record)
    is_open = {name: one for name, one in clocks.items() if name.startswith(OPEN_CLOCK)}
    pointers = {
        topic: Cut(cut.offset, clocks=is_open, is_in_cuts_topic=True, writer=writer)
        for topic, cut in whole.items()
    }
    metadata = _encode_all(pointers, times, processor_times)
    if max(map(len, metadata.values())) > METADATA_BYTES_MAX:
        metadata = _encode_all(pointers, times, None)
    return TaskCut(metadata, encode_cut_record(next(iter(whole.values())), offsets))


def _encode_all(
    cuts: Mapping[str, Cut], times: Mapping[str, int], processor_times: Mapping[str, int] | None
) -> dict[str, str]:
    return {
        topic: encode_cut(cut, partition_time_ms=times[topic], processor_times=processor_times)
        for topic, cut in cuts.items()
    }


def _content(cut: Cut) -> dict[str, Any]:
    content = {
        "t": _in_order(cut.topic_ids),
        "c": dict(cut.clocks),  # of schedules that are due together, the order decides results
        "p": _in_order(cut.positions),
    }
    rarer = {"b": _in_order(cut.begins), "u": _in_order(cut.local_rows)}
    return content | {key: value for key, value in rarer.items() if value}


def _in_order(named: Mapping[str, _T]) -> dict[str, _T]:
    """Return a copy in the order of the names: equal cuts have equal bytes."""
    return dict(sorted(named.items()))


def _cut(offset: int, fields: _Fields) -> Cut:
    writer = None if fields.w is None else Writer(*fields.w)
    if fields.x:
        return Cut(offset, clocks=fields.c, is_in_cuts_topic=True, writer=writer)
    return Cut(
        offset,
        fields.p,
        fields.c,
        fields.t,
        writer=writer,
        begins=fields.b,
        local_rows=fields.u,
    )


def _encode_streams_block(partition_time_ms: int, processor_times: Mapping[str, int]) -> bytes:
    # Kafka Streams leaves the count out when its map is empty. We always write it, because with
    # our block behind it the JVM would read our first four bytes as the count.
    parts = [_HEADER.pack(_STREAMS_VERSION, partition_time_ms), _COUNT.pack(len(processor_times))]
    for name, time_ms in processor_times.items():
        text = name.encode()
        parts += (_COUNT.pack(len(text)), text, _TIME.pack(time_ms))
    return b"".join(parts)


def _decode_streams_block(data: bytes) -> tuple[int, dict[str, int], bytes]:
    version, partition_time_ms = _HEADER.unpack_from(data)
    if version not in (1, _STREAMS_VERSION):
        raise ValueError(version)
    times: dict[str, int] = {}
    at = _HEADER.size
    if version == 1 or at == len(data):
        return partition_time_ms, times, b""
    (count,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    for _ in range(count):
        (length,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        if length < 0:
            raise ValueError(length)
        name = data[at : at + length].decode()
        at += length
        (times[name],) = _TIME.unpack_from(data, at)
        at += _TIME.size
    return partition_time_ms, times, data[at:]


def _encode_block(fields: Mapping[str, Any]) -> bytes:
    return _PREFIX + msgspec.msgpack.encode(_in_order(fields))


def _decode_block(data: bytes) -> _Fields:
    if len(data) < 2 or data[0] != _MARK:
        raise _damaged("it does not start with its mark")
    if data[1] != _VERSION:
        raise RestoreError(
            f"a cut of version {data[1]} was found, and this logstate reads version {_VERSION}; "
            "a newer logstate committed last; run that version again, or a newer one"
        )
    try:
        return _DECODER.decode(data[2:])
    except UNDECODABLE as error:
        raise _damaged(str(error)) from error


def _damaged(what: str) -> RestoreError:
    return RestoreError(
        f"a cut is damaged: {what}. The metadata of a committed offset, or a record of the cuts"
        " topic, was cut off or written by another program. Commit the offsets of the group again"
        " from a backup, or give the state up with `logstate reset`"
    )
