"""``logstate tail`` and ``consume``: print the records of a topic, or of a store, decoded."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from logstate.cli.shared.options import (
    AnyApplicationId,
    Bootstrap,
    CommandConfig,
    Json,
    OfTopology,
    Registry,
)
from logstate.cli.shared.printing import (
    fail,
    in_words,
    print_json,
    print_text,
    window_in_words,
)
from logstate.cli.shared.stored_state import client_settings, cluster_of, registry_settings
from logstate.cli.shared.time_limit import time_limit
from logstate.contracts.clients import LogConsumer
from logstate.contracts.clock import date_of
from logstate.contracts.errors import ConfigError, TopicError
from logstate.contracts.records import FetchedRecord, TopicPartition

if TYPE_CHECKING:
    from logstate.cli.shared.stored_logs import Stored
    from logstate.topics.displayed_records import DisplayedRecord, RecordReader

#: number of records without --limit and --from-beginning
_LIMIT = 10
_BATCH = 1_000
_POLL_S = 0.2

Settings = Mapping[str, str]


class _Wanted(NamedTuple):
    """The topic to read, with its decoder."""

    topic: str
    partitions: int
    reader: RecordReader


def tail(
    name: Annotated[str, typer.Argument(help="A topic, or a store of the application.")],
    bootstrap: Bootstrap,
    application_id: AnyApplicationId = None,
    topology: OfTopology = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Print from the oldest record on.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="End after this many records; the default is the newest 10."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with new records until Ctrl-C.")
    ] = False,
    registry: Registry = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Print the records of a topic or of a store's changelog; committed ones only, decoded.

    Example: `logstate tail spent --application-id spending`. The stores, inputs, outputs and
    internal topics of an application that has run, and the inputs and outputs of --topology, are
    decoded as declared. The formats of other topics are guessed, and marked as guessed. Bytes that
    cannot be decoded are printed raw. With --json, a line for each record.
    """
    from logstate.kafka.log_reader import log_bounds
    from logstate.topics.displayed_records import newest_records

    settings = {"bootstrap.servers": bootstrap, **client_settings(command_config)}
    wanted = _topic_to_read(settings, name, application_id, topology, registry_settings(registry))
    show = _as_json if as_json else _as_text
    partitions = [TopicPartition(wanted.topic, number) for number in range(wanted.partitions)]
    bounds = log_bounds(settings, partitions)
    ends = {tp: one.stable_end for tp, one in bounds.items()}
    if from_beginning:
        found = _merged(_read(settings, tp, one.start, ends[tp]) for tp, one in bounds.items())
        shown = _print(found, wanted.reader, show, limit)
    else:
        readable = {tp: (one.start, ends[tp]) for tp, one in bounds.items()}
        newest = newest_records(readable, limit or _LIMIT, partial(_read_all, settings))
        shown = _print(newest, wanted.reader, show, None)
    left = None if limit is None else limit - shown
    if follow and left != 0:
        consumer = cluster_of(bootstrap, command_config).log_consumer()
        try:
            _print(_read_until(consumer, ends), wanted.reader, show, left)
        except KeyboardInterrupt:
            pass
        finally:
            consumer.close()


def consume(
    topic: Annotated[str, typer.Argument(help="A topic, or a store of the application.")],
    bootstrap: Bootstrap,
    application_id: AnyApplicationId = None,
    topology: OfTopology = None,
    from_beginning: Annotated[
        bool,
        typer.Option("--from-beginning", help="Begin with the oldest record, not the next one."),
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--max", min=1, help="End after this many records.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, help="End after this many seconds; default: on Ctrl-C.")
    ] = None,
    registry: Registry = None,
    command_config: CommandConfig = None,
) -> None:
    """Print the records of a topic as lines of JSON, as they arrive; committed ones only, decoded.

    Example: `logstate consume spent --from-beginning --max 2 --timeout 30 --application-id
    spending`. Formats are those of `logstate tail`. Ends with status 1 if --max records have not
    arrived within --timeout. `logstate produce --file` reads the lines.
    """
    from logstate.kafka.log_reader import log_bounds

    end_s = None if timeout is None else time.monotonic() + timeout
    settings = {"bootstrap.servers": bootstrap, **client_settings(command_config)}
    limit_s = threading.TIMEOUT_MAX if timeout is None else timeout
    with time_limit("consume", limit_s, bootstrap, ends_itself=True):
        wanted = _topic_to_read(
            settings, topic, application_id, topology, registry_settings(registry)
        )
        partitions = [TopicPartition(wanted.topic, number) for number in range(wanted.partitions)]
        bounds = log_bounds(settings, partitions)
        starts = {tp: one.start if from_beginning else one.stable_end for tp, one in bounds.items()}
        consumer = cluster_of(bootstrap, command_config).log_consumer()
        try:
            count = _print(_read_until(consumer, starts, end_s), wanted.reader, _as_json, limit)
        except KeyboardInterrupt:
            return
        finally:
            consumer.close()
    if limit is not None and count < limit:
        fail(f"{count} of {limit} records of {wanted.topic!r} arrived within {timeout:g} s")


def _topic_to_read(
    settings: Settings,
    name: str,
    application_id: str | None,
    target: str | None,
    registry: Mapping[str, str],
) -> _Wanted:
    from logstate.cli.shared.stored_logs import stored_by, stored_log
    from logstate.cli.shared.topic_formats import serdes_in
    from logstate.topics.displayed_records import RecordReader

    if target is not None:
        found = serdes_in(target, name)
        formats = RecordReader(None, found.key.describe(), found.value.describe(), registry)
        return _Wanted(name, _partitions(settings, name, ""), formats)
    if application_id is None:
        return _Wanted(name, _partitions(settings, name, ""), RecordReader(None, None, None))
    try:
        stored = stored_by(settings, application_id)
    except TopicError as error:  # the id may be a default of the environment
        partitions = _partitions(settings, name, f". {error}")
        print_text(f"{error} The formats of {name!r} are guessed", is_error=True)
        return _Wanted(name, partitions, RecordReader(None, None, None))
    if name in stored.manifest["stores"]:
        log = stored_log(settings, stored, name)
        return _Wanted(log.topic, log.partitions, RecordReader(log, log.key, log.value, registry))
    return _topic_of(settings, name, stored, registry)


def _topic_of(
    settings: Settings, name: str, stored: Stored, registry: Mapping[str, str]
) -> _Wanted:
    from logstate.cli.shared.stored_logs import suggestion
    from logstate.topics.displayed_records import reader_of_topic

    stores, between = stored.manifest["stores"], stored.manifest.get("topics", {})
    written: Mapping[str, Any] = stored.manifest.get("formats", {})
    known = {*stores, *between, *written, *stored.manifest.get("inputs", ())}
    hint = (
        f". Nor has application {stored.application_id!r} such a store{suggestion(name, known)}; it"
        f" has {', '.join(sorted(stores)) or 'none'}"
    )
    partitions = _partitions(settings, name, hint)
    reader = reader_of_topic(stored.manifest, name, partitions, registry)
    return _Wanted(name, partitions, reader)


def _partitions(settings: Settings, topic: str, hint: str) -> int:
    from logstate.kafka.log_reader import log_topics

    try:
        return log_topics(settings, [topic])[topic].partitions
    except TopicError as error:
        raise ConfigError(
            f"topic {topic!r} does not exist on {settings['bootstrap.servers']}"
            + (hint or ". For the store of an application name that by --application-id")
        ) from error


def _read(
    settings: Settings, partition: TopicPartition, start: int, end: int
) -> Iterator[FetchedRecord]:
    from logstate.kafka.log_reader import read_partition

    batches = read_partition(settings, partition, start=start, end=end, may_skip=True)
    return itertools.chain.from_iterable(batches)


def _read_all(
    settings: Settings, ranges: Mapping[TopicPartition, tuple[int, int]]
) -> Iterator[FetchedRecord]:
    for partition, (start, end) in ranges.items():
        yield from _read(settings, partition, start, end)


def _merged(parts: Iterable[Iterator[FetchedRecord]]) -> Iterator[FetchedRecord]:
    """Merge the partitions by time, as far as each is in the order of its times."""
    from logstate.topics.displayed_records import place_in_time

    return heapq.merge(*parts, key=place_in_time)


def _read_until(
    consumer: LogConsumer, starts: Mapping[TopicPartition, int], end_s: float | None = None
) -> Iterator[FetchedRecord]:
    consumer.assign(dict(starts))
    while end_s is None or time.monotonic() < end_s:
        polled = consumer.poll(_BATCH, _POLL_S)
        for partition, position in polled.out_of_range.items():
            raise TopicError(
                f"{partition} does not have offset {position} any more: records that were not shown"
                " yet were deleted by retention, or the topic was deleted and created again. Start"
                " again to continue with the records that exist"
            )
        for records in polled.records.values():
            yield from records


def _print(
    records: Iterable[FetchedRecord], reader: RecordReader, show: Any, limit: int | None
) -> int:
    count = 0
    for record in itertools.islice(records, limit):
        show(reader.shown(record))
        count += 1
    return count


def _as_json(one: DisplayedRecord) -> None:
    print_json(one.as_plain_data())


def _as_text(one: DisplayedRecord) -> None:
    place = f"{one.partition}@{one.offset}"
    value = "deleted" if one.is_tombstone else in_words(one.value)
    parts = [date_of(one.timestamp_ms), place, in_words(one.key), window_in_words(one.window)]
    parts += [] if one.element is None else [f"{one.element[0]} {in_words(one.element[1])}"]
    doubts = [name for name in one.formats if ":" in name]
    remark = f"  ({'; '.join(dict.fromkeys(doubts))})" if doubts else ""
    print_text("  ".join(part for part in (*parts, value) if part) + remark)
