"""Stores as Spark tables: ``spark.read.format("logstate")`` and ``spark.readStream``.

No jar is needed: the reader is a Python data source over the Kafka client and Arrow. The format is
known by name in a session from ``session()``, and in any session whose Python (``PYSPARK_PYTHON``)
has logstate installed as a wheel; elsewhere register ``LogstateDataSource``::

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

Options (case does not matter, as in all of Spark):

========================  ======================================================================
bootstrap                 the brokers
application, store        whose store; or **topic**: a changelog, or any topic as key and value
cut                       ``latest-commit`` (default): every task at its newest commit; ``latest``:
                          everything committed; or offsets, ``{"topic": {"0": 42}}``, exclusive
partition                 only this changelog partition
includeTombstones         deleted keys too, with a null value and ``_is_tombstone``
includeMeta               also _partition, _offset, _timestamp, _headers, _is_tombstone
times                     ``timestamp`` (default) or ``ms``: the type of all time columns
keyFormat, valueFormat    string, int64, int32, float64, boolean, bytes, json: instead of what the
                          manifest says, or for a topic without one
pushKeyFilter             filter keys while reading; the session must have
                          spark.sql.python.filterPushdown.enabled=true (``session()`` sets it)
stallSeconds              give up after this long without progress (60)
readChangeFeed            changes instead of the table: change_type (update or delete), key, value,
                          _partition, _offset, _timestamp; always set it for readStream
startingOffsets           changes: ``earliest`` (default), ``latest`` or offsets
maxOffsetsPerTrigger      streams: bound of a micro-batch
failOnDataLoss            changes: ``false`` goes on where retention removed unread records
kafka.*                   configuration of the client, in librdkafka's names
schemaRegistry            its URL, where Avro is read through one and the URL needs credentials or
                          differs from here; schemaRegistry.*: configuration of its client
========================  ======================================================================

A table is fixed when it is loaded: count it twice and the answers agree. Load again to see newer
state. Tables of several stores belong together if they are read with one ``latest_cut()``.

Not done here: nothing is ever written to a changelog, from Spark or otherwise.

Imports changelog, and kafka and local_broker: it runs without an application. Start with `source`.
"""

from logstate.changelog.spark.cut import latest_cut
from logstate.changelog.spark.session_builder import session
from logstate.changelog.spark.source import LogstateDataSource
from logstate.changelog.spark.views import ParquetView, parquet_view

__all__ = ["LogstateDataSource", "ParquetView", "latest_cut", "parquet_view", "session"]
