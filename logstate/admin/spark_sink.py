"""Fills a store of a stopped application from a DataFrame: ``df.write.format("logstate")``.

How it works: executors encode their rows and write them to a temporary topic of the batch, without
a transaction; each task attempt marks its records with a unique id. Spark reports the successful
attempts to the driver. The driver copies their records into the changelog in one transaction, as
:mod:`logstate.admin.backfill` does for all sources, and deletes the topic::

    executors ── records of every attempt ── topic of the batch ── driver ── one transaction

Invariants:

- All rows of the DataFrame are in the store, or none; a batch is not written twice.
- Records of failed and duplicate attempts are skipped. The records of successful attempts are
  counted, so none may be missing.
"""

from __future__ import annotations

import importlib
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any, cast

from pyspark.sql import datasource as spark
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

from logstate.admin.backfill import Filling, open_backfill
from logstate.admin.store_rows import LoggedRow, Row, StoreRows
from logstate.changelog.reading.options import SourceOptions
from logstate.changelog.spark.first_line import message_first
from logstate.contracts.clients import Admin, NewTopic
from logstate.contracts.errors import BrokerError, ConfigError
from logstate.contracts.records import FetchedRecord, ProducedRecord, TopicPartition
from logstate.contracts.serde import Serde
from logstate.kafka.cluster import KafkaCluster
from logstate.kafka.log_reader import log_bounds, read_partition

_HEAD = struct.Struct(">16sq?")
#: Spark 4.1 passes Arrow batches; earlier versions pass rows
_Writer: Any = getattr(spark, "DataSourceArrowWriter", spark.DataSourceWriter)


@dataclass
class WrittenRows(spark.WriterCommitMessage):
    """The number of records that one task attempt wrote."""

    attempt: bytes
    count: int


class StoreWriter(_Writer):
    """One write: created on the driver, sent to the executors, committed on the driver."""

    @message_first
    def __init__(self, options: SourceOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError(
                'a store is filled with mode("append"): rows replace rows of the same key. To'
                " begin with an empty store, run `logstate reset` first, which deletes all"
                " state of the application"
            )
        if options.application is None or options.store is None:
            raise ConfigError('writing needs "application" and "store": whose store is filled')
        self._options = options
        self._schema = schema
        with self._open() as application:
            filling = self._filling(application)
            filling.rows.check_columns(set(schema.names))
            self._entry = dict(filling.entry)
            self._is_repeat = filling.was_written()
            batch = options.batch_id or uuid.uuid4().hex
            self._topic = f"{options.application}-backfill-{batch}"
            if not self._is_repeat:
                self._make_topic(application.admin, filling.rows.partitions)

    def _make_topic(self, admin: Admin, partitions: int) -> None:
        admin.delete_topics([self._topic])  # a write that was killed may have left it
        config = {"cleanup.policy": "delete", "retention.ms": "-1"}
        admin.create_topics([NewTopic(self._topic, partitions, -1, config)])

    @message_first
    def write(self, iterator: Iterator[Any]) -> WrittenRows:
        """Encode and send the rows of one partition of the DataFrame; runs on an executor."""
        attempt = uuid.uuid4().bytes
        if self._is_repeat:
            return WrittenRows(attempt, 0)
        key, value = self._serdes()
        assert self._options.store is not None
        rows = StoreRows.of(self._options.store, self._entry, key=key, value=value)
        producer = KafkaCluster(self._options.bootstrap, self._options.kafka).plain_producer()
        written = WrittenRows(attempt, 0)
        try:
            for batch in iterator:
                records = [one for row in rows_of(batch, self._schema) for one in rows.logged(row)]
                producer.produce([self._staged_record(attempt, record) for record in records])
                written.count += len(records)
            producer.flush()
        finally:
            producer.close()
        return written

    def _staged_record(self, attempt: bytes, record: LoggedRow) -> ProducedRecord:
        partition, key, value, time_ms = record
        data = _HEAD.pack(attempt, time_ms, value is not None) + (value or b"")
        return ProducedRecord(self._topic, partition, key, data, 0)

    @message_first
    def commit(self, messages: list[WrittenRows | None]) -> None:
        """Copy all records into the changelog in one transaction; runs on the driver."""
        if self._is_repeat:
            return
        counts = {one.attempt: one.count for one in messages if one is not None}
        with self._open() as application:
            filling = self._filling(application)
            if not filling.was_written():
                filling.fill(self._taken_over(counts, filling.rows.partitions))
            application.admin.delete_topics([self._topic])

    @message_first
    def abort(self, messages: list[WrittenRows | None]) -> None:  # noqa: ARG002 - Spark's shape
        """Delete the temporary topic; nothing was written to the store. Runs on the driver."""
        if not self._is_repeat:
            with self._open() as application:
                application.admin.delete_topics([self._topic])

    def _open(self) -> Any:
        options = self._options
        return open_backfill(cast(str, options.application), options.bootstrap, options.kafka)

    def _filling(self, application: Any) -> Filling:
        key, value = self._serdes()
        return Filling(
            application,
            cast(str, self._options.store),
            self._options.batch_id,
            key=key,
            value=value,
        )

    def _serdes(self) -> tuple[Serde[Any] | None, Serde[Any] | None]:
        options = self._options
        return _serde("keySerde", options.key_serde), _serde("valueSerde", options.value_serde)

    def _taken_over(self, counts: Mapping[bytes, int], partitions: int) -> Iterator[LoggedRow]:
        """Yield the records of successful attempts; raise BrokerError if one is missing."""
        found = 0
        for partition in range(partitions):
            for record in self._records_of(partition):
                attempt, time_ms, has_value = _HEAD.unpack_from(record.value())
                if attempt in counts:
                    found += 1
                    value = record.value()[_HEAD.size :] if has_value else None
                    yield LoggedRow(partition, record.key(), value, time_ms)
        if found != sum(counts.values()):
            raise BrokerError(
                f"the executors wrote {sum(counts.values())} records to {self._topic!r}, and"
                f" it has {found}: was the topic changed in the meantime? Nothing was written to"
                " the store; write the DataFrame again"
            )

    def _records_of(self, partition: int) -> Iterator[FetchedRecord]:
        settings, log = self._options.client_config, TopicPartition(self._topic, partition)
        bounds = log_bounds(settings, [log])[log]
        for batch in read_partition(settings, log, start=bounds.start, end=bounds.end):
            yield from batch


def rows_of(batch: Any, schema: StructType) -> Iterable[Row]:
    """Return the rows of an Arrow batch, or of one row from Spark 4.0.

    Spark 4.0 passes timestamps in the local time of this process, without a time zone.
    """
    if hasattr(batch, "to_pylist"):
        return cast("Iterable[Row]", batch.to_pylist())
    return [cast("Row", _with_zones(batch.asDict(recursive=True), schema))]


def _with_zones(value: Any, kind: DataType) -> Any:
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {field.name: _with_zones(value[field.name], field.dataType) for field in kind}
    if isinstance(kind, ArrayType):
        return [_with_zones(each, kind.elementType) for each in value]
    if isinstance(kind, MapType):
        return {name: _with_zones(each, kind.valueType) for name, each in value.items()}
    is_local = isinstance(kind, TimestampType) and value.tzinfo is None
    return value.astimezone(UTC) if is_local else value


def _serde(option: str, target: str | None) -> Serde[Any] | None:
    if target is None:
        return None
    module, colon, attribute = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute) if colon else None
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"option {option}: {target!r} cannot be imported here: {error}"
        ) from error
    if not isinstance(found, Serde):
        raise ConfigError(
            f'option {option}: {target!r} is not a serde; name it as "module:attribute"'
        )
    return found
