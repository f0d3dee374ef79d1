"""The jars of Delta and Iceberg, and the settings of a session that writes their tables."""

from __future__ import annotations

from pathlib import Path

from logstate.local_broker.java import find_java
from tests.ivy_jars import ivy_module, resolve_jars

DELTA, ICEBERG = "4.4.0", "1.12.0"
#: the releases of Spark for which a format has jars
LAKE_RELEASES = {"delta": ("4.1", "4.2"), "iceberg": ("4.1",)}


def lake_jars(lake: str, release: str) -> Path:
    """Return the directory with the jars of a format for a release of Spark."""
    if lake == "delta":
        wanted = ("io.delta", f"delta-spark_{release}_2.13", DELTA)
    else:
        wanted = ("org.apache.iceberg", f"iceberg-spark-runtime-{release}_2.13", ICEBERG)
    return resolve_jars(find_java(), ivy_module(wanted), f"{lake}-spark-{release}")


def lake_settings(lake: str, release: str, warehouse: Path) -> dict[str, str]:
    """Return the settings of a session that writes ``lake_table`` of a format."""
    # Its own ones: the others, which Ivy finds that it needs, are in Spark already.
    jars = ":".join(str(jar) for jar in sorted(lake_jars(lake, release).glob(f"{lake}-*.jar")))
    # On the class paths, because a session copies spark.jars each time that it starts.
    paths = {"spark.driver.extraClassPath": jars, "spark.executor.extraClassPath": jars}
    if lake == "delta":
        return {
            **paths,
            # A table of a few rows needs no 50 tasks to read its log.
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.warehouse.dir": str(warehouse),
        }
    return {
        **paths,
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
    }


def lake_table(lake: str, warehouse: Path, name: str) -> str:
    """Return a table name that every process resolves to the same directory."""
    return f"delta.`{warehouse}/{name}`" if lake == "delta" else f"lake.db.{name}"


def table_versions(lake: str, warehouse: Path, name: str) -> int:
    """Return how many versions of ``lake_table`` were published, from its metadata files."""
    if lake == "delta":
        return len(list((warehouse / name / "_delta_log").glob("*.json")))
    return len(list((warehouse / "db" / name / "metadata").glob("v*.metadata.json")))
