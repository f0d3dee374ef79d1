"""The format ``logstate-metadata``: applications, stores, schemas, cuts and lag as tables.

Options: ``bootstrap``; ``application``, by default all applications; ``table``, one of the
following names; and ``kafka.*`` as in the format ``logstate``:

================  ==============================================================================
``applications``  application, stores, inputs, repartition_topics
``stores``        application, store, kind, changelog, partitions, sub_topology, inputs, key_format,
                  value_format, window_size_ms, retention_ms
``schemas``       application, store, column, type: the columns of a store's table
``cuts``          application, cut, taken_at, expires_at, store, partition, position, records;
                  includes ``latest-commit``, with null for position and taken_at until every
                  task with records in its changelogs has committed
``lag``           application, topic, partition, committed, end, lag
================  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from logstate.changelog.cuts.application_lags import applications, lags
from logstate.changelog.cuts.latest_cut import cut_of
from logstate.changelog.cuts.logs import read_manifest
from logstate.changelog.cuts.named_cuts import list_cuts
from logstate.changelog.reading.tables import StoreTable, arrow_schema
from logstate.changelog.spark.first_line import message_first
from logstate.changelog.spark.schema import spark_schema, spark_type
from logstate.contracts.errors import ConfigError, RestoreError

_TEXTS = pa.list_(pa.string())
_TIME = pa.timestamp("us", tz="UTC")
_SCHEMAS: Final = {
    "applications": {"stores": pa.int32(), "inputs": _TEXTS, "repartition_topics": _TEXTS},
    "stores": {
        "store": pa.string(),
        "kind": pa.string(),
        "changelog": pa.string(),
        "partitions": pa.int32(),
        "sub_topology": pa.int32(),
        "inputs": _TEXTS,
        "key_format": pa.string(),
        "value_format": pa.string(),
        "window_size_ms": pa.int64(),
        "retention_ms": pa.int64(),
    },
    "schemas": {"store": pa.string(), "column": pa.string(), "type": pa.string()},
    "cuts": {
        "cut": pa.string(),
        "taken_at": _TIME,
        "expires_at": _TIME,
        "store": pa.string(),
        "partition": pa.int32(),
        "position": pa.int64(),
        "records": pa.int64(),
    },
    "lag": {
        "topic": pa.string(),
        "partition": pa.int32(),
        "committed": pa.int64(),
        "end": pa.int64(),
        "lag": pa.int64(),
    },
}

Rows = Iterator[dict[str, Any]]


@dataclass
class _SinglePartition(InputPartition):
    """The only partition: the tables are small."""

    config: Mapping[str, Any]
    application: str | None
    table: str


class LogstateMetadata(DataSource):
    """The format ``logstate-metadata``; the module describes its options."""

    @message_first
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        given = {name.lower(): value for name, value in options.items()}
        kafka = {name[6:]: value for name, value in given.items() if name.startswith("kafka.")}
        unknown = set(given) - {"bootstrap", "application", "table"}
        problems = [f"unknown option {n!r}" for n in sorted(unknown) if not n.startswith("kafka.")]
        if given.get("table") not in _SCHEMAS:
            problems.append(
                f'option "table" is {given.get("table")!r}; it must be one of {list(_SCHEMAS)}'
            )
        if not given.get("bootstrap"):
            problems.append('option "bootstrap" is missing; give the brokers, as "host:9092"')
        if problems:
            raise ConfigError(problems)
        config = {**kafka, "bootstrap.servers": given["bootstrap"]}
        self._asked = _SinglePartition(config, given.get("application"), given["table"])

    @classmethod
    def name(cls) -> str:
        return "logstate-metadata"

    def schema(self) -> StructType:
        return spark_schema(_schema(self._asked.table))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        return _MetadataReader(self._asked)


class _MetadataReader(DataSourceReader):
    def __init__(self, asked: _SinglePartition) -> None:
        self._asked = asked

    def partitions(self) -> list[InputPartition]:
        return [self._asked]

    @message_first
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _SinglePartition)
        config = partition.config
        names = [partition.application] if partition.application else applications(config)
        rows: list[dict[str, Any]] = []
        for name in names:
            manifest, cut_records = read_manifest(config, name)
            found = _TABLES[partition.table](config, name, manifest, cut_records)
            rows += ({"application": name, **row} for row in found)
        yield pa.RecordBatch.from_pylist(rows, schema=_schema(partition.table))


def _schema(table: str) -> pa.Schema:
    return pa.schema({"application": pa.string(), **_SCHEMAS[table]})


def _applications(_: Any, __: str, manifest: Mapping[str, Any], ___: Any) -> Rows:
    yield {
        "stores": len(manifest["stores"]),
        "inputs": sorted(manifest.get("inputs", ())),
        "repartition_topics": sorted(manifest.get("topics", {})),
    }


def _stores(_: Any, __: str, manifest: Mapping[str, Any], ___: Any) -> Rows:
    for store, entry in manifest["stores"].items():
        yield {
            "store": store,
            "kind": entry["kind"],
            "changelog": entry.get("changelog_topic"),
            "partitions": entry.get("partitions"),
            "sub_topology": entry.get("sub_topology"),
            "inputs": list(entry.get("source_topics") or ()),
            "key_format": (entry.get("key") or {}).get("format"),
            "value_format": (entry.get("value") or {}).get("format"),
            "window_size_ms": entry.get("window_size_ms"),
            "retention_ms": entry.get("retention_ms"),
        }


def _schemas(_: Any, __: str, manifest: Mapping[str, Any], ___: Any) -> Rows:
    for store, entry in manifest["stores"].items():
        columns = StoreTable(entry).batch_columns(with_tombstones=False, with_meta=False)
        for field in arrow_schema(columns):
            yield {
                "store": store,
                "column": field.name,
                "type": spark_type(field.type).simpleString(),
            }


def _cuts(
    config: Mapping[str, Any], name: str, manifest: Mapping[str, Any], records: Mapping[Any, Any]
) -> Rows:
    positions: Mapping[str, Mapping[int, int | None]]
    taken_at: int | None = None
    try:
        newest = cut_of(config, name, manifest, records)
        positions, taken_at = newest.positions, newest.taken_at_ms * 1000
    except RestoreError:  # a task has not committed yet, so there is no cut of all tasks
        positions = {
            entry["changelog_topic"]: dict.fromkeys(range(entry.get("partitions", 0)))
            for entry in manifest["stores"].values()
            if entry.get("changelog_topic") is not None
        }
    for store, entry in manifest["stores"].items():
        for partition, position in positions.get(entry.get("changelog_topic"), {}).items():
            yield {
                "cut": "latest-commit",
                "taken_at": taken_at,
                "store": store,
                "partition": partition,
                "position": position,
            }
    kafka = {key: value for key, value in config.items() if key != "bootstrap.servers"}
    for named in list_cuts(config["bootstrap.servers"], name, kafka=kafka):
        until_ms = named.expires_at_ms
        for store, kept in named.stores.items():
            for partition, end in kept.ends.items():
                yield {
                    "cut": named.name,
                    "taken_at": named.cut.taken_at_ms * 1000,
                    "expires_at": None if until_ms is None else until_ms * 1000,
                    "store": store,
                    "partition": partition,
                    "position": named.cut.positions[kept.entry["changelog_topic"]][partition],
                    "records": end,
                }


def _lag(config: Mapping[str, Any], name: str, manifest: Mapping[str, Any], _: Any) -> Rows:
    for one in lags(config, name, manifest):
        yield one._asdict()


_TABLES: Final[Mapping[str, Callable[..., Rows]]] = {
    "applications": _applications,
    "stores": _stores,
    "schemas": _schemas,
    "cuts": _cuts,
    "lag": _lag,
}
