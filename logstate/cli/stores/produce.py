"""``logstate produce``: write records to a topic, in the formats of an application."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logstate.cli.shared.options import (
    AnyApplicationId,
    Bootstrap,
    CommandConfig,
    Json,
    OfTopology,
    Registry,
)
from logstate.cli.shared.printing import print_json, print_text
from logstate.cli.shared.stored_state import client_settings, cluster_of, registry_settings
from logstate.contracts.errors import UNDECODABLE, ConfigError, TopicError
from logstate.contracts.records import ProducedRecord

if TYPE_CHECKING:
    from logstate.cli.shared.stored_logs import Settings
    from logstate.serdes.typed_values import TypedValues

_BATCH = 1_000
#: fields of a line that are written, and those that `logstate consume` prints in addition
_FIELDS = {"key", "value", "timestamp", "partition", "headers"}
_OTHERS = {"topic", "offset", "key_format", "value_format"}


def produce(
    topic: Annotated[str, typer.Argument(help="The topic; it must exist.")],
    bootstrap: Bootstrap,
    key: Annotated[
        str | None, typer.Argument(help="As it is printed: ada, -42, true; objects as JSON.")
    ] = None,
    value: Annotated[str | None, typer.Argument(help="Like the key.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="Instead of KEY and VALUE: a file of JSON objects, one per line, with key, value,"
            " and optionally timestamp (ms), partition and headers; - is standard input."
        ),
    ] = None,
    topology: OfTopology = None,
    application_id: AnyApplicationId = None,
    registry: Registry = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Write a record, or a file of records, to a topic.

    Example: `logstate produce orders o-1 '{"customer": "ada", "cents": 250}' --topology
    spending:topology`. Keys and values are encoded with the serdes that the topology, or the
    application with this id, has for the topic; with neither, as text. The partition is that of
    Kafka's default partitioner. A null value deletes the key's row of a table. All records are
    checked before the first is written.
    """
    from logstate.cli.shared.topic_formats import typed_topic

    settings = {"bootstrap.servers": bootstrap, **client_settings(command_config)}
    partitions = _partitions(settings, topic)
    encoders = typed_topic(settings, topic, topology, application_id, registry_settings(registry))
    if file is not None and key is None:
        records = list(_of_file(file, topic, partitions, encoders))
    elif file is None and key is not None and value is not None:
        keys, values = encoders
        record = keys.from_text(key), values.from_text(value)
        records = [ProducedRecord(topic, None, *record, _now_ms())]
    else:
        raise ConfigError("give a KEY and a VALUE, or --file with records")
    producer = cluster_of(bootstrap, command_config).plain_producer()
    try:
        for start in range(0, len(records), _BATCH):
            producer.produce(records[start : start + _BATCH])
        producer.flush()
    finally:
        producer.close()
    if as_json:
        print_json({"topic": topic, "records": len(records)})
    else:
        what = "record" if len(records) == 1 else "records"
        print_text(f"wrote {len(records):,} {what} to {topic}", is_error=True)


def _partitions(settings: Settings, topic: str) -> int:
    from logstate.kafka.log_reader import log_topics

    try:
        return log_topics(settings, [topic])[topic].partitions
    except TopicError as error:
        raise ConfigError(
            f"topic {topic!r} does not exist on {settings['bootstrap.servers']}. `logstate topics"
            " create --with-inputs MODULE:ATTRIBUTE` creates the topics of a topology"
        ) from error


def _of_file(
    file: Path, topic: str, partitions: int, encoders: tuple[TypedValues, TypedValues]
) -> Iterator[ProducedRecord]:
    try:
        lines = (sys.stdin if str(file) == "-" else file.open(encoding="utf-8")).readlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--file {file} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _of_line(line, topic, partitions, encoders)
            except ConfigError as error:
                raise ConfigError(f"{file}, line {number}: {error}. Nothing was written") from error


def _of_line(
    line: str, topic: str, partitions: int, encoders: tuple[TypedValues, TypedValues]
) -> ProducedRecord:
    import msgspec

    try:
        found = msgspec.json.decode(line)
    except UNDECODABLE as error:
        raise ConfigError(f"it is not JSON: {error}") from error
    if not isinstance(found, dict) or not {"key", "value"} <= found.keys():
        raise ConfigError('expected an object such as {"key": "ada", "value": null}')
    unknown = sorted(found.keys() - _FIELDS - _OTHERS)
    if unknown:
        raise ConfigError(f"unknown field {unknown[0]!r}; known are {', '.join(sorted(_FIELDS))}")
    partition, timestamp = found.get("partition"), found.get("timestamp", _now_ms())
    if partition is not None and not _is_whole(partition, partitions):
        raise ConfigError(f"partition {partition!r}: the topic has 0 to {partitions - 1}")
    if not _is_whole(timestamp, 2**63):
        raise ConfigError(f"timestamp {timestamp!r}: give milliseconds since 1970")
    headers = found.get("headers") or {}
    if not isinstance(headers, dict) or not all(isinstance(one, str) for one in headers.values()):
        raise ConfigError('headers: give an object of strings, such as {"trace": "7"}')
    keys, values = encoders
    return ProducedRecord(
        topic,
        partition,
        keys.from_data(found["key"]),
        values.from_data(found["value"]),
        timestamp,
        [(name, text.encode()) for name, text in headers.items()] or None,
    )


def _is_whole(number: Any, limit: int) -> bool:
    return type(number) is int and 0 <= number < limit


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
