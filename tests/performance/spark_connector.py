"""Spark's own Kafka source: the jars that fit a PySpark, from the newest release that can be had.

The connector has the version of its Spark. Where that one is not in the repository, the newest one
before it of the same generation is taken, and the run says so: a comparison, no support statement.
"""

from __future__ import annotations

from pathlib import Path

from logstate.contracts.errors import BrokerError
from logstate.local_broker.java import find_java
from tests.ivy_jars import resolve_jars
from tests.performance.jvm_peer import MissingToolError

#: releases of Spark with a connector, newest first, and the Kafka client that they were built with
_RELEASES = {
    "4.3.0": "3.9.2",
    "4.2.1": "3.9.2",
    "4.2.0": "3.9.2",
    "4.1.1": "3.9.1",
    "4.0.0": "3.9.0",
}
_POOL = "2.13.1"
_MODULE = """\
<ivy-module version="2.0">
  <info organisation="logstate" module="local-broker"/>
  <dependencies>
{lines}  </dependencies>
</ivy-module>
"""


def coordinates(version: str) -> list[tuple[str, str, str]]:
    """What a PySpark of this version needs for ``format("kafka")``, as Maven names it.

    >>> [":".join(each) for each in coordinates("4.2.0")][0]
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0'
    """
    return [
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", version),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", version),
        ("org.apache.kafka", "kafka-clients", _RELEASES.get(version, "3.9.2")),
        ("org.apache.commons", "commons-pool2", _POOL),
    ]


def connector_jars(version: str) -> tuple[str, list[Path]]:
    """The version that was found, and its jars. Raises MissingToolError if there is none."""
    candidates = [version, *(one for one in _RELEASES if _numbers(one) < _numbers(version))]
    refusals = []
    for one in dict.fromkeys(candidates):
        try:
            return one, _fetched(one)
        except BrokerError as error:
            refusals.append(f"{one}: {str(error).splitlines()[0]}")
    wanted = ":".join(coordinates(version)[0])
    raise MissingToolError(f"no {wanted}, nor an older one: {'; '.join(refusals)}")


def _fetched(version: str) -> list[Path]:
    lines = "".join(
        # Of each the jar alone: what else it names comes with PySpark.
        f'    <dependency org="{org}" name="{name}" rev="{revision}" conf="default->master"/>\n'
        for org, name, revision in coordinates(version)
    )
    directory = resolve_jars(find_java(), _MODULE.format(lines=lines), f"spark-kafka-{version}")
    return sorted(directory.glob("*.jar"))


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdecimal()]
