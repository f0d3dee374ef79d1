"""Makes ``format("logstate")`` known to Spark, which looks for modules named ``pyspark_*``."""

from logstate.changelog.spark.source import LogstateDataSource as DefaultSource

__all__ = ["DefaultSource"]
