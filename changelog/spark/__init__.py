"""Stores as Spark tables: ``spark.read.format("logstate")`` and ``spark.readStream``.

No jar is needed: the reader is a Python data source that uses the Kafka client and Arrow. A session
from ``session()`` finds the format by name, and so does any session whose Python
(``PYSPARK_PYTHON``) has logstate installed as a wheel; otherwise register ``LogstateDataSource``::

    from logstate.changelog.spark import parquet_view, session

    spark = session()
    spend = (
        spark.read.format("logstate")
        .option("bootstrap", "localhost:9092")
        .option("application", "shop")
        .option("store", "spend")
        .load()
    )
    changes = (
        spark.readStream.format("logstate")
        .options(bootstrap="localhost:9092", application="shop", store="spend")
        .option("readChangeFeed", "true")
        .load()
    )
    query = changes.writeStream.foreachBatch(parquet_view("/data/spend")).start()

Options, in any case:

========================  ======================================================================
bootstrap                 the brokers
application, store        the store; or **topic**: a changelog, or any topic as key and value
cut                       ``latest-commit`` (default): every task at its newest commit; ``latest``:
                          all committed records; a cut as text, from ``latest_cut()``, or exclusive
                          end offsets, ``{"topic": {"0": 42}}``; or the name of a cut that
                          ``create_cut()`` made
partition                 only this changelog partition
includeTombstones         deleted keys too, with a null value and ``_is_tombstone``
includeExpired            expired windows too, which the store hides
includeMeta               also _partition, _offset, _timestamp, _headers, _is_tombstone
times                     ``timestamp`` (default) or ``ms``: the type of all time columns
keyFormat, valueFormat    string, int64, int32, int16, float64, float32, boolean, bytes, uuid,
                          uuid_bytes, json: instead of the manifest's format, or for a topic
                          without a manifest
keySchema, valueSchema    of JSON: columns as SQL writes them, or a JSON schema; of Avro: its schema
storeKind, windowSizeMs   of a topic without a manifest: key_value (default), window, session,
                          versioned, join_window, and the size of its windows
valueSerde                ``module:attribute`` of an upgradable serde that executors can import; it
                          upgrades rows of earlier versions
pushKeyFilter             whether the reader evaluates filters; by default if the session has
                          spark.sql.python.filterPushdown.enabled=true (``session()`` sets it)
stallSeconds              fail after this time without progress (60)
readChangeFeed            changes instead of the table: change_type (update or delete), key, value,
                          _partition, _offset, _timestamp; always set it for readStream
changeFeedFormat          ``log`` (default), or ``spark``: _change_type (insert, update_postimage,
                          delete), _commit_version, _commit_timestamp in place of change_type
includePreimages          of changeFeedFormat ``spark``: also the previous rows (update_preimage)
startingOffsets           changes: ``earliest`` (default), ``latest`` or offsets
maxOffsetsPerTrigger      streams: limit of offsets in a micro-batch
maxRecordsPerTrigger,     streams: limits in whole commits, by records and by bytes of keys and
maxBytesPerTrigger        values; a larger commit is a batch by itself
failOnDataLoss            changes: ``false`` continues where retention removed unread records
batchId                   writes: a batch of this name is written once
keySerde                  writes: as valueSerde, if only the application's serde can write keys
kafka.*                   configuration of the client, with librdkafka's names
schemaRegistry            the URL of the schema registry, if it needs credentials or is not that of
                          the application; schemaRegistry.*: configuration of its client
========================  ======================================================================

A table is fixed when it is loaded, so two counts agree. Load again to read newer state. Tables of
several stores are consistent if they are read with one ``latest_cut()``, as ``tables()`` and
``temp_views()`` do.

``df.write.format("logstate").mode("append")`` fills a store of a stopped application in one
transaction, with the types of the manifest, partitioned by murmur2 (docs/resharding.md).

Imports changelog with its packages cuts, reading and offline, kafka and local_broker; it runs
without an application. Start with `source`.
"""

from logstate.changelog.cuts.cut_value import CutValue, parse_cut
from logstate.changelog.cuts.latest_cut import latest_cut
from logstate.changelog.cuts.named_cut import NamedCut
from logstate.changelog.cuts.named_cuts import create_cut, delete_cut, list_cuts
from logstate.changelog.spark.bucketed_view import BucketedView, bucketed_view
from logstate.changelog.spark.change_reader import offsets_behind
from logstate.changelog.spark.lake_merge import create_merge_target, lake_packages, merge_into
from logstate.changelog.spark.metadata import LogstateMetadata
from logstate.changelog.spark.session_builder import session
from logstate.changelog.spark.source import LogstateDataSource
from logstate.changelog.spark.store_tables import tables, temp_views
from logstate.changelog.spark.views import ParquetView, parquet_view

__all__ = [
    "BucketedView",
    "CutValue",
    "LogstateDataSource",
    "LogstateMetadata",
    "NamedCut",
    "ParquetView",
    "bucketed_view",
    "create_cut",
    "create_merge_target",
    "delete_cut",
    "lake_packages",
    "latest_cut",
    "list_cuts",
    "merge_into",
    "offsets_behind",
    "parquet_view",
    "parse_cut",
    "session",
    "tables",
    "temp_views",
]
