"""``logstate doctor spark``: find what would stop Spark from reading stores, and the remedy."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice
from pathlib import Path
from typing import Any

from logstate.cli.diagnosis import findings
from logstate.cli.diagnosis.findings import Finding, Level
from logstate.cli.shared.stored_logs import stored_by
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import TopicPartition
from logstate.kafka.log_reader import log_bounds, log_topics, read_partition
from logstate.kafka.partition_counts import murmur2_partition
from logstate.topics.displayed_records import log_of_entry

_PACKAGES = ("logstate", "confluent-kafka", "pyarrow", "pyspark")
_SAMPLE_OFFSETS = 2_000
#: run by the workers' Python, which may not have logstate
_ASK = """
import json, sys
from importlib.metadata import PackageNotFoundError, version
found = {"python": sys.version.split()[0]}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def spark_facts() -> Iterator[Finding]:
    """Check PySpark, its jars, and the Python that runs its workers, on this machine."""
    here = {"python": sys.version.split()[0], **_versions()}
    yield findings.connector(here.get("pyspark"), _jars())
    executable = os.environ.get("PYSPARK_PYTHON", sys.executable)
    try:
        answer = subprocess.run(
            [executable, "-c", _ASK, *_PACKAGES],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        there, why = json.loads(answer.stdout), ""
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        there, why = None, str(error)
    yield from findings.workers_python(executable, here, there, why)


def placed_keys(settings: Mapping[str, Any], application: str) -> Iterator[Finding]:
    """Check for each store with a changelog whether a sample of keys is in the right partition."""
    try:
        manifest = stored_by(settings, application).manifest
        for name, entry in manifest["stores"].items():
            topic = entry["changelog_topic"]
            if topic is not None:
                yield _placed(settings, name, entry, topic)
    except LogstateError as error:
        yield Finding(application, Level.PROBLEM, str(error))


def _placed(settings: Mapping[str, Any], name: str, entry: Any, topic: str) -> Finding:
    count = log_topics(settings, [topic])[topic].partitions
    log = log_of_entry(name, entry, topic, count)
    logs = [TopicPartition(topic, n) for n in range(count)]
    records = chain.from_iterable(
        islice(_sample(settings, tp, bounds), _SAMPLE_OFFSETS)
        for tp, bounds in log_bounds(settings, logs).items()
    )
    found = findings.placement_of(log.layout, records, count, murmur2_partition)
    return findings.placed(name, found)


def _sample(settings: Mapping[str, Any], log: TopicPartition, bounds: Any) -> Iterator[Any]:
    start = max(bounds.start, bounds.stable_end - _SAMPLE_OFFSETS)
    found = read_partition(settings, log, start=start, end=bounds.stable_end, may_skip=True)
    return chain.from_iterable(found)


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _jars() -> list[str]:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        return []
    return [jar.name for jar in (Path(found.origin).parent / "jars").glob("*.jar")]
