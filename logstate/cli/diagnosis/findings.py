"""The findings of ``logstate doctor``, computed from facts without I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from logstate.contracts.changelog_keys import KeyLayout
from logstate.contracts.records import FetchedRecord
from logstate.kafka.broker_facts import (
    CONSUMER_GROUP_HEARTBEAT,
    END_TRANSACTION,
    BrokerFacts,
    ClockSkew,
)

#: files that one task's RocksDB keeps open at most, see changelog/backend/rocks.py
_FILES_PER_TASK = 256
_FILES_AT_LEAST = 2 * _FILES_PER_TASK
_FILES_ENOUGH = 4_096
_MIB = 1 << 20
_DISK_AT_LEAST, _DISK_ENOUGH = 100 * _MIB, 1_024 * _MIB
#: the clock difference from which a warning is given; wall-clock schedules and reads by time are
#: off by as much
_SKEW_MS = 1_000
_TRANSACTION_MS = 10_000


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    #: information that does not matter to an application
    NOTE = "note"
    #: it runs, but not well
    WARNING = "warning"
    #: it would not run
    PROBLEM = "problem"


class Finding(NamedTuple):
    """The result of one check."""

    subject: str
    level: Level
    found: str
    #: what to do; empty if nothing is needed
    advice: str = ""


def missing_package(name: str, needed_for: str, extra: str, *, is_needed: bool) -> Finding:
    """Report a package that is not installed."""
    level = Level.PROBLEM if is_needed else Level.NOTE
    return Finding(name, level, f"not installed; {needed_for}", f"pip install '{extra}'")


def old_version(name: str, found: str, least: tuple[int, ...]) -> Finding:
    """Report an installed package, by its version."""
    numbers = tuple(int(part) for part in found.split(".")[: len(least)] if part.isdecimal())
    if numbers and numbers < least:
        wanted = ".".join(map(str, least))
        return Finding(name, Level.PROBLEM, found, f"pip install '{name}>={wanted}'")
    return Finding(name, Level.OK, found)


def extension_module(is_used: bool, reason: str) -> Finding:
    """Report whether the extension module in C moves the records."""
    if is_used:
        return Finding("extension module", Level.OK, f"in use: {reason}")
    advice = "optional, see docs/native.md; building it takes a C compiler and Python's headers"
    return Finding("extension module", Level.NOTE, f"not in use: {reason}", advice)


def open_files(soft: int | None) -> Finding:
    """Report the limit of open files of this process; None: no limit."""
    found = "no limit" if soft is None else f"{soft:,}"
    advice = (
        f"each task keeps up to {_FILES_PER_TASK} files open: raise it to {_FILES_ENOUGH:,} or more"
        " (ulimit -n, LimitNOFILE= of systemd)"
    )
    if soft is None or soft >= _FILES_ENOUGH:
        return Finding("open files", Level.OK, found)
    level = Level.PROBLEM if soft < _FILES_AT_LEAST else Level.WARNING
    return Finding("open files", level, found, advice)


def disk(path: str, free: int) -> Finding:
    """Report the free bytes of the state directory's file system."""
    found = f"{free / _MIB:,.0f} MiB free at {path}"
    if free >= _DISK_ENOUGH:
        return Finding("disk", Level.OK, found)
    level = Level.PROBLEM if free < _DISK_AT_LEAST else Level.WARNING
    return Finding(
        "disk", level, found, "free some, or move the state directory: it contains every store"
    )


def unwritable(path: str, why: str) -> Finding:
    """Report a state directory that cannot be written."""
    advice = "give the user that runs the application this directory, or another by state_dir="
    return Finding("state directory", Level.PROBLEM, f"{path} cannot be written: {why}", advice)


def clock(skew: ClockSkew) -> Finding:
    """Report the difference between this machine's clock and a broker's."""
    side = "ahead of" if skew.ahead_ms >= 0 else "behind"
    found = f"{abs(skew.ahead_ms):,.0f} ms {side} the broker's, within {skew.within_ms:,.0f} ms"
    if abs(skew.ahead_ms) - skew.within_ms < _SKEW_MS:
        return Finding("clock", Level.OK, found)
    advice = "synchronize both with the same time server: records without a time get this one's"
    return Finding("clock", Level.WARNING, found, advice)


def brokers(facts: BrokerFacts) -> Iterator[Finding]:
    """Report the brokers that answer, and their features."""
    shown = f"{', '.join(facts.brokers)} (cluster {facts.cluster_id})"
    yield Finding("brokers", Level.OK, shown)
    yield Finding("release of Kafka", Level.OK, facts.release)
    yield from _groups(facts)
    yield from _transactions(facts)
    yield from _replication(len(facts.brokers), facts.settings)
    yield from _operations(facts.operations)


def _groups(facts: BrokerFacts) -> Iterator[Finding]:
    subject = "groups by the brokers (KIP-848)"
    allowed = facts.settings.get("group.coordinator.rebalance.protocols", "consumer")
    if CONSUMER_GROUP_HEARTBEAT not in facts.apis and facts.apis:
        yield Finding(
            subject,
            Level.PROBLEM,
            "these brokers do not support them",
            'Application(group_protocol="classic"), or Kafka 4.0',
        )
    elif "consumer" not in allowed:
        yield Finding(
            subject,
            Level.PROBLEM,
            f"group.coordinator.rebalance.protocols={allowed}",
            'add consumer to it, or Application(group_protocol="classic")',
        )
    else:
        yield Finding(subject, Level.OK, "yes")


def _transactions(facts: BrokerFacts) -> Iterator[Finding]:
    if facts.apis.get(END_TRANSACTION, 0) >= 5:
        yield Finding("transactions", Level.OK, "with KIP-890: a late end cannot end the next one")
    elif facts.apis:
        yield Finding(
            "transactions",
            Level.WARNING,
            "without the second part of KIP-890",
            "Kafka 4.0 and transaction.version=2 close a rare gap (docs/broker-errors.md)",
        )
    limit = facts.settings.get("transaction.max.timeout.ms")
    if limit is not None and int(limit) < _TRANSACTION_MS:
        yield Finding(
            "transaction.max.timeout.ms",
            Level.PROBLEM,
            f"{limit} ms",
            f"an application opens transactions of {_TRANSACTION_MS:,} ms and more: raise it",
        )


def _replication(count: int, settings: Mapping[str, str]) -> Iterator[Finding]:
    for name in ("transaction.state.log.replication.factor", "offsets.topic.replication.factor"):
        factor = settings.get(name)
        if factor is not None and count > 1 and int(factor) < 3:
            yield Finding(
                name,
                Level.WARNING,
                f"{factor}, of {count} brokers",
                "with fewer than 3 copies the loss of a broker loses commits: raise it",
            )
    if count == 1:
        yield Finding(
            "replication", Level.NOTE, "one broker", "if it is lost, all is lost: only for tests"
        )


def _operations(allowed: frozenset[str] | None) -> Iterator[Finding]:
    if allowed is None:
        yield Finding("permissions", Level.NOTE, "the brokers do not report this client's rights")
        return
    found = ", ".join(sorted(allowed)).lower()
    if "CREATE" in allowed:
        yield Finding("permissions", Level.OK, f"of the cluster: {found}")
        return
    yield Finding(
        "permissions",
        Level.NOTE,
        f"topics cannot be created; of the cluster: {found or 'none'}",
        "create those of an application before its first start (logstate topics create)",
    )


def unreachable(why: str) -> Finding:
    """Report that no broker answers."""
    advice = (
        "check that the address is right as seen from here, that the brokers are up, and that the"
        " settings of --command-config fit (security.protocol, sasl.*, ssl.*)"
    )
    return Finding("brokers", Level.PROBLEM, why, advice)


# --- Spark --------------------------------------------------------------------------------

#: packages that a Python that runs Spark's workers needs
_OF_WORKERS = ("logstate", "confluent-kafka", "pyarrow", "pyspark")
_NONE = ""


class Placement(NamedTuple):
    """The placement of a sample of a changelog's keys."""

    keys: int
    misplaced: int
    """Keys that are not in the partition of Kafka's own partitioner."""
    example: str


def workers_python(
    executable: str, here: Mapping[str, str], there: Mapping[str, str] | None, why: str
) -> Iterator[Finding]:
    """Compare the workers' Python with this one: package to version; None: it fails."""
    subject = "worker's python"
    if there is None:
        yield Finding(
            subject,
            Level.PROBLEM,
            f"{executable} does not start: {why}",
            "set PYSPARK_PYTHON to a Python that every executor has",
        )
        return
    yield Finding(subject, Level.OK, f"{executable}, {there.get('python', '')}")
    if _minor_version(there.get("python", _NONE)) != _minor_version(here.get("python", _NONE)):
        yield Finding(
            subject,
            Level.PROBLEM,
            f"{there.get('python')} there, {here.get('python')} here",
            "Spark needs the same minor version: set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON",
        )
    for name in _OF_WORKERS:
        found, own = there.get(name, _NONE), here.get(name, _NONE)
        if not found:
            advice = f"install logstate[spark] into {executable}"
            yield Finding(f"worker's {name}", Level.PROBLEM, "not installed there", advice)
        elif found != own:
            advice = "install the same version on the driver and on every executor"
            found = f"{found} there, {own or 'none'} here"
            yield Finding(f"worker's {name}", Level.WARNING, found, advice)


def connector(spark_version: str | None, jars: Iterable[str]) -> Finding:
    """Report the jar of Spark's own Kafka source, which only reads through the JVM need."""
    if spark_version is None:
        return Finding("jars", Level.PROBLEM, "no PySpark here", "pip install 'logstate[spark]'")
    name = "spark-sql-kafka-0-10_2.13"
    coordinate = f"org.apache.spark:{name}:{spark_version}"
    found = next((jar for jar in jars if jar.startswith(name)), None)
    if found is not None:
        level = Level.OK if spark_version in found else Level.WARNING
        advice = "" if level is Level.OK else f"use the one of Spark {spark_version}"
        return Finding("jars", level, found, advice)
    return Finding(
        "jars",
        Level.NOTE,
        'none needed: format("logstate") is Python',
        f"for Spark's own Kafka source: spark.jars.packages={coordinate}",
    )


def placement_of(
    layout: KeyLayout,
    records: Iterable[FetchedRecord],
    partitions: int,
    partition_for: Callable[[bytes, int], int],
) -> Placement:
    """Return how many records are in the partition where Kafka's partitioner puts their keys."""
    keys = misplaced = 0
    example = ""
    for record in records:
        key: bytes = layout.inner_key(record.key())
        keys += 1
        wanted = partition_for(key, partitions)
        if wanted != record.partition():
            misplaced += 1
            example = example or f"{key[:40]!r} in {record.partition()}, not {wanted}"
    return Placement(keys, misplaced, example)


def placed(store: str, found: Placement) -> Finding:
    """Report whether the keys of a store can be looked up by their partition."""
    subject = f"keys of {store}"
    if not found.misplaced:
        return Finding(subject, Level.OK, f"{found.keys} checked, all in their partitions")
    return Finding(
        subject,
        Level.WARNING,
        f"{found.misplaced} of {found.keys} in another partition ({found.example})",
        "the producer of the input does not use murmur2 (librdkafka: partitioner=murmur2_random), "
        "or uses a custom partitioner: reads are correct, joins with topics that were partitioned "
        "otherwise are not",
    )


def _minor_version(python: str) -> tuple[str, ...]:
    return tuple(python.split(".")[:2])
