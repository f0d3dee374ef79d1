"""A store as a table through Spark's own Kafka source, without Python on the executors.

For clusters that have the connector. The driver reads the manifest and the cut as for other reads.
The executors run Spark's own code: they read committed records up to the cut, decode rows with SQL
expressions, and find the newest record of each row with a shuffle. The columns are those of
``format("logstate")``.

    spark = session(conf={"spark.jars.packages": kafka_packages()})
    spend = kafka_table(spark, bootstrap="localhost:9092", application="shop", store="spend")

Formats that only Python can decode (Avro, Protobuf, upgradable types) stay binary.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from logstate.changelog.cuts.logs import ChangelogSource, log_reader
from logstate.changelog.cuts.source_topic_records import is_source_topic
from logstate.changelog.reading.changelog_source import find_source
from logstate.changelog.reading.cut import Ends, ends_of_read
from logstate.changelog.reading.options import SourceOptions, parse_options
from logstate.changelog.spark.json_expressions import json_expression
from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.changelog_keys import KeyLayout, history_ms_of
from logstate.contracts.errors import ConfigError
from logstate.contracts.records import TopicPartition

#: the Scala version of Spark's jars
SCALA = "2.13"
_UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


def kafka_packages(version: str = pyspark.__version__) -> str:
    """Return the coordinate of the Kafka connector for a PySpark, for ``spark.jars.packages``.

    >>> kafka_packages("4.2.0")
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0'
    """
    return f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{version}"


def kafka_table(
    spark: SparkSession,
    *,
    bootstrap: str,
    application: str,
    store: str,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the table of a key-value, window, session or versioned store at its newest commit.

    ``options`` are options of ``format("logstate")`` (``cut``, ``includeExpired``), and ``kafka.*``
    with the names of the JVM client.

    Raises ConfigError if the session has no Kafka connector or no SQL expression decodes the store,
    and TopicError and RestoreError as other reads do.
    """
    given = {"bootstrap": bootstrap, "application": application, "store": store}
    kafka = {n: v for n, v in (options or {}).items() if n.startswith("kafka.")}
    own = {n: v for n, v in (options or {}).items() if not n.startswith("kafka.")}
    parsed = parse_options({**own, **given})
    source = find_source(parsed)
    ends = ends_of_read(parsed, source)
    expressions = row_expressions(source.entry)
    records = _records(spark, {**kafka, "kafka.bootstrap.servers": bootstrap}, parsed, source, ends)
    hidden = None if parsed.include_expired else hidden_rows(source.entry, ends.clocks)
    return newest_rows(records, expressions, source.entry, hidden)


def _records(
    spark: SparkSession,
    kafka: Mapping[str, str],
    options: SourceOptions,
    source: ChangelogSource,
    ends: Ends,
) -> DataFrame:
    """Return the committed records up to the cut. Raise ConfigError without the connector."""
    logs = [TopicPartition(source.topic, n) for n in ends.positions]
    bounds = log_reader().log_bounds(options.client_config, logs)
    starts = {tp.partition: min(bounds[tp].start, ends.positions[tp.partition]) for tp in logs}
    where = {
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({source.topic: sorted(starts)}),
        "startingOffsets": _offsets(source.topic, starts),
        "endingOffsets": _offsets(source.topic, ends.positions),
    }
    try:
        records = spark.read.format("kafka").options(**kafka, **where).load()
        _ = records.schema  # Spark Connect resolves the format on the first request only
    except PySparkException as error:
        raise ConfigError(
            f"this session cannot read Kafka ({str(error).splitlines()[0]}). Start it with the"
            f" connector: spark.jars.packages={kafka_packages()}, or read with"
            ' format("logstate"), which needs no jar'
        ) from error
    return records


def row_expressions(entry: Mapping[str, Any]) -> list[str]:
    """Return the SQL expressions of a table's columns, over ``key``, ``value``, ``timestamp``.

    Raises ConfigError for a store whose rows only the library decodes.
    """
    kind = kind_of(entry)
    has_other_rows = kind.row_columns is not None or kind.key_layout.has_element
    if has_other_rows or entry.get("retain_duplicates"):
        raise ConfigError(
            f"store {entry.get('name')!r} is a {entry['kind']} store, whose rows no SQL expression"
            ' decodes; read it with format("logstate")'
        )
    key = entry.get("key") or {"format": "bytes"}
    layout = kind.layout_of(entry.get("key"))
    head, added = layout.head_bytes, layout.head_bytes + layout.tail_bytes
    raw = f"substring(key, {head + 1}, length(key) - {added})" if added else "key"
    size_ms = key.get("window_size_ms") or entry.get("window_size_ms")
    return [
        f"{decoded(key.get('inner', key), raw)} as key",
        *_window_expressions(layout, size_ms),
        f"{decoded(entry.get('value'), 'value')} as value",
    ]


def _window_expressions(layout: KeyLayout, size_ms: int | None) -> list[str]:
    if layout.start_at is None:
        return []
    start_ms = _int64(f"substring(key, length(key) - {-layout.start_at - 1}, 8)")
    if layout.end_at is not None:
        end_ms = _int64(f"substring(key, length(key) - {-layout.end_at - 1}, 8)")
        end = f"timestamp_millis({end_ms})"
    else:
        end = "null" if size_ms is None else f"timestamp_millis({start_ms} + {size_ms})"
    return [
        f"timestamp_millis({start_ms}) as window_start",
        f"cast({end} as timestamp) as window_end",
    ]


def decoded(description: Mapping[str, Any] | None, column: str) -> str:
    """Return the SQL expression that decodes a binary column which a serde wrote.

    >>> decoded({"format": "string"}, "key")
    'validate_utf8(cast(key as string))'
    """
    described = description or {"format": "bytes"}
    schema = described.get("schema")
    if described["format"] == "json" and schema:
        return json_expression(schema, _text(column))
    return EXPRESSIONS.get(described["format"], EXPRESSIONS["bytes"])(column)


def hidden_rows(entry: Mapping[str, Any], clocks: Mapping[int, int]) -> str | None:
    """Return the condition for expired rows, which the store hides; None if it hides none."""
    kind = kind_of(entry)
    oldest, ttl_ms = kind.oldest_shown(entry), entry.get("ttl_ms")
    if ttl_ms is not None:
        oldest, time = 1 - ttl_ms, "_timestamp"
    else:
        time = "window_start" if kind.key_layout.end_at is None else "window_end"
    if oldest is None or not clocks:
        return None
    cases = " ".join(f"when {n} then {clock + oldest}L" for n, clock in sorted(clocks.items()))
    return f"unix_millis({time}) < case _partition {cases} end"


def newest_rows(
    records: DataFrame, expressions: list[str], entry: Mapping[str, Any], hidden: str | None
) -> DataFrame:
    """Return the newest record of each row, decoded, without deleted and hidden rows."""
    time = "greatest(timestamp, timestamp_millis(0)) as timestamp"  # time 0 is stored as -1
    columns = [f"{stored_key(entry)} as key", "value", "partition", "offset", time]
    stored = records.selectExpr(*columns)
    if kind_of(entry).is_versioned:
        return _versions(stored, expressions, history_ms_of(entry))
    newest = (
        stored.groupBy("key", "partition")
        .agg({"offset": "max"})
        .withColumnRenamed("max(offset)", "offset")
    )
    rows = stored.join(newest, ["key", "partition", "offset"], "left_semi")
    places = "partition as _partition", "timestamp as _timestamp"
    found = rows.where(row_condition(entry)).selectExpr(*expressions, *places)
    shown = found if hidden is None else found.where(f"not coalesce({hidden}, false)")
    return shown.drop("_partition", "_timestamp")


def stored_key(entry: Mapping[str, Any]) -> str:
    """Return the expression for the key of a record's row.

    Other producers write a source topic and may encode one JSON key in several ways, so JSON keys
    are normalized there. Numbers are compared by value: ``1`` and ``1.0`` are one key.
    """
    if is_source_topic(entry) and _is_json(entry.get("key")):
        return f"coalesce(cast(to_json(try_parse_json({_text('key')})) as binary), key)"
    return "key"


def row_condition(entry: Mapping[str, Any]) -> str:
    """Return the condition for records that are rows.

    Other producers may write JSON ``null``, which is a deletion, into a source topic.
    """
    if is_source_topic(entry) and _is_json(entry.get("value")):
        return rf"value is not null and not {_text('value')} rlike '^\\s*null\\s*$'"
    return "value is not null"


def _versions(records: DataFrame, expressions: list[str], history_ms: int | None) -> DataFrame:
    """Return the newest record of each key and time; a version ends where the next one begins.

    Records that were too late for the store are in the log and are not versions.
    """
    if history_ms is not None:
        clock = "max(timestamp) over (partition by partition order by offset)"
        records = records.selectExpr("*", f"unix_millis({clock}) as _clock")
        records = records.where(f"unix_millis(timestamp) >= _clock - {history_ms}").drop("_clock")
    newest = "row_number() over (partition by key, partition, timestamp order by offset desc)"
    following = "lead(timestamp) over (partition by key, partition order by timestamp)"
    rows = records.selectExpr("*", f"{newest} as _number").where("_number = 1")
    rows = rows.selectExpr("*", "timestamp as valid_from", f"{following} as valid_to")
    return rows.where("value is not null").selectExpr(*expressions, "valid_from", "valid_to")


def _is_json(description: Mapping[str, Any] | None) -> bool:
    return (description or {}).get("format") == "json"


def _text(column: str) -> str:
    return f"cast({column} as string)"


def _int64(column: str) -> str:
    return f"cast(conv(hex({column}), 16, -10) as bigint)"


def _signed(column: str, bits: int, type_: str) -> str:
    number = f"cast(conv(hex({column}), 16, 10) as bigint)"
    return f"cast(({number} - if({number} >= {1 << (bits - 1)}, {1 << bits}, 0)) as {type_})"


def _of_bytes(size: int, column: str, number: str) -> str:
    return _checked(f"length({column}) = {size}", f"a number has {size} bytes", column, number)


def _checked(is_right: str, rule: str, column: str, value: str) -> str:
    """Return the value, or an error if the bytes have another format; null stays null."""
    found = f"concat('{rule}; found ', hex({column}), ': was the format changed?')"
    return f"if({column} is null or {is_right}, {value}, raise_error({found}))"


def _double_of_bits(bits: str, exponent_bits: int, fraction_bits: int) -> str:
    """Return a double from the bits of IEEE 754 in a signed number of the same size."""
    largest, bias = (1 << exponent_bits) - 1, (1 << (exponent_bits - 1)) - 1
    exponent = f"(shiftrightunsigned({bits}, {fraction_bits}) & {largest})"
    fraction = f"({bits} & {(1 << fraction_bits) - 1}) / pow(2D, {fraction_bits})"
    size = f"(1 + {fraction}) * pow(2D, {exponent} - {bias})"
    small = f"{fraction} * pow(2D, {1 - bias})"
    infinite = f"{exponent} = {largest}"
    number = f"(if({bits} < 0, -1D, 1D) * if({exponent} = 0, {small}, {size}))"
    sign = f"if({bits} < 0, -1D, 1D) * double('Infinity')"
    special = f"if({fraction} > 0, double('NaN'), {sign})"
    return f"if({infinite}, {special}, {number})"


def _identifier(digits: str) -> str:
    parts = ", '-', ".join(
        f"substr({digits}, {start}, {size})"
        for start, size in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    )
    return f"concat({parts})"


#: the expression for a binary column by its format; JSON with a schema is separate
EXPRESSIONS: Mapping[str, Callable[[str], str]] = {
    "string": lambda column: f"validate_utf8({_text(column)})",
    "int64": lambda column: _of_bytes(8, column, _int64(column)),
    "int32": lambda column: _of_bytes(4, column, _signed(column, 32, "int")),
    "int16": lambda column: _of_bytes(2, column, _signed(column, 16, "smallint")),
    "float64": lambda column: _of_bytes(8, column, _double_of_bits(_int64(column), 11, 52)),
    "float32": lambda column: _of_bytes(
        4, column, f"cast({_double_of_bits(_signed(column, 32, 'int'), 8, 23)} as float)"
    ),
    "uuid": lambda column: _checked(
        f"{_text(column)} rlike '{_UUID}'", "a uuid is a text", column, f"lower({_text(column)})"
    ),
    "uuid_bytes": lambda column: _checked(
        f"length({column}) = 16",
        "a uuid has 16 bytes",
        column,
        _identifier(f"lower(hex({column}))"),
    ),
    "boolean": lambda column: _checked(
        f"{column} in (X'00', X'01')", "a boolean is one byte, 0 or 1", column, f"{column} = X'01'"
    ),
    "bytes": lambda column: column,
    "json": _text,
}


def _offsets(topic: str, positions: Mapping[int, int]) -> str:
    return json.dumps({topic: {str(n): at for n, at in sorted(positions.items())}})
