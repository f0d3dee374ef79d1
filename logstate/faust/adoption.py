"""Taking over a Faust application: its offsets are continued, its tables' rows become stores' rows.

The logstate application has the Faust application's id, so it is the same consumer group and begins
where that one committed. Only the rows have to be written, once, before its first start:

    the group has no members ── a commit without members succeeds, or MembersLiveError
    changelogs of the stores are made, empty
    one transaction          ── every row of every table; what an earlier attempt wrote is replaced
       before its end        ── still no members, and the tables' changelogs have not grown
    the application's own topic is made: from now on it may start

A crash in the middle leaves an open transaction, which the next attempt aborts; one after the
transaction leaves rows that the next attempt writes again. The last step is what a start looks
for: without it the application refuses to begin (``logstate.topics.adoption``).

Rows and offsets are one state only if Faust left them so: after an end in order, or with
``processing_guarantee="exactly_once"`` after any. A killed Faust worker that was at-least-once
leaves changelogs ahead of its offsets, and counts some records twice; so do we then, as it would
have itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import faust

from logstate.contracts.clients import Committed, TopicDescription, run_steps
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import BrokerError, RestoreError, UpgradeError
from logstate.contracts.records import ProducedFields, TaskId, TopicPartition
from logstate.contracts.topic_names import cuts_topic
from logstate.faust.table_rows import FaustTable, TableRowWriter, tables_of, window_problem
from logstate.kafka.cluster import KafkaCluster
from logstate.kafka.commit_without_members import commit_without_members
from logstate.kafka.group_offsets import committed_offsets
from logstate.kafka.log_reader import latest_records, log_bounds, read_partition
from logstate.topics.bound_plan import BoundPlan
from logstate.topics.internal_topics import check_topics_of_others, required_topics
from logstate.topology.plan.plan import Topology

#: brokers allow fifteen minutes by default; rows are read and written meanwhile
_TRANSACTION_TIMEOUT_MS = 600_000
_BATCH = 10_000
#: suffix of the topics of Faust's group_by
_REGROUPED = "-repartition"


@dataclass(frozen=True)
class Adopted:
    """The result of a migration."""

    #: store to the number of its rows
    rows: Mapping[str, int]
    #: where the application continues
    offsets: Mapping[TopicPartition, int]


def adopt(
    app: faust.App,
    topology: Topology,
    *,
    bootstrap: str,
    tables: Mapping[str, str],
    convert: Mapping[str, Callable[[Any], Any]] | None = None,
    forget: Collection[str] = (),
    config: Mapping[str, Any] | None = None,
    replication_factor: int = -1,
    topic_config: Mapping[str, str] | None = None,
) -> Adopted:
    """Take over the tables of a Faust application that was stopped; once, before the first start.

    Args:
        app: the Faust application; its id is the logstate application's.
        topology: the new topology; it reads the topics that the agents read.
        bootstrap: brokers, as ``host:port``.
        tables: the name of each Faust table to the name of the store that continues it. The
            store needs another name than the table, because both name a changelog.
        convert: by table, a function from the table's value to the store's value; None removes
            the row.
        forget: tables that are not continued.
        config: settings of the Kafka clients, as for ``Application``.
        replication_factor: of the topics that are made; -1 is the brokers' default.
        topic_config: settings of the topics that are made.

    Raises UpgradeError for an unsuitable topology or table, and SerdeError for a table that a store
    cannot continue (nothing is written then), MembersLiveError while an instance of either
    application is running, BrokerError if no broker answers.
    """
    application_id = app.conf.id
    cluster = KafkaCluster(
        bootstrap,
        config,
        transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
        reports_positions=False,
    )
    admin = cluster.admin()
    try:
        plan = run_steps(check_topics_of_others(admin, topology, application_id))
        existing = admin.describe_topics((), f"{application_id}-")
        pairs = _pairs(tables_of(app, forget), plan, tables, forget, existing, convert or {})
        settings = {"bootstrap.servers": bootstrap, **(config or {})}
        offsets = _offsets(settings, plan)
        _check_regrouped_were_read(settings, admin, plan)
        commit_without_members(settings, application_id, offsets)
        required = required_topics(plan, replication_factor, topic_config or {})
        logs = {plan.changelog_topics[pair.store] for pair in pairs}
        _create(admin, [one for one in required if one.name in logs], existing)
        adoption = _Adoption(settings, plan, offsets, pairs, convert or {})
        rows = adoption.write(cluster.transactional_producer(f"{application_id}-faust-adoption"))
        _create(admin, required, admin.describe_topics((), f"{application_id}-"))
    finally:
        admin.close()
    return Adopted(rows, offsets)


@dataclass(frozen=True)
class _Pair:
    table: FaustTable
    store: str


def _pairs(
    known: Mapping[str, FaustTable],
    plan: BoundPlan,
    tables: Mapping[str, str],
    forget: Collection[str],
    existing: Mapping[str, TopicDescription],
    convert: Collection[str] = (),
) -> list[_Pair]:
    """Return the pairs of table and store. Raises UpgradeError with all problems."""
    stores = {name: topic for name, topic in plan.changelog_topics.items() if topic is not None}
    problems = []
    if cuts_topic(plan.application_id) in existing:
        problems.append(
            f"application {plan.application_id!r} has run already, or its tables were taken over:"
            " later counts would be overwritten. Start it; to start again from Faust, delete the"
            f" topics that it made ({cuts_topic(plan.application_id)!r} and its changelogs)"
        )
    problems += [
        f"table {name!r} would be left behind: name its store in tables=, or say forget="
        for name in known
        if name not in tables and name not in forget
    ]
    problems += [
        f"store {name!r} would begin with nothing, while offsets go on: name its table in tables="
        for name in stores
        if name not in tables.values() and _is_own(plan, name)
    ]
    problems += [
        f"tables {', '.join(map(repr, names))} would go into one store, {store!r}, where their rows"
        " of one key replace each other: give each table a separate store"
        for store, names in _tables_of_stores(tables).items()
        if len(names) > 1
    ]
    if isinstance(forget, str):
        problems.append(f"forget={forget!r} is a text: name the tables in a list or a set")
    problems += [
        f"convert= has a function for {name!r}, which is not a table of tables=: {sorted(tables)}"
        for name in convert
        if name not in tables
    ]
    problems += [
        f"table {name!r} is in tables= and in forget=: leave it out of one"
        for name in tables
        if name in forget
    ]
    for name, store in tables.items():
        if name in forget:
            continue
        problem = _pair_problem(known.get(name), store, stores, plan, existing)
        if problem is not None:
            problems.append(f"table {name!r} to store {store!r}: {problem}")
    if problems:
        raise UpgradeError("Faust's tables were not taken over. " + "; ".join(problems))
    return [_Pair(known[name], store) for name, store in tables.items()]


def _pair_problem(
    table: FaustTable | None,
    store: str,
    stores: Mapping[str, str],
    plan: BoundPlan,
    existing: Mapping[str, TopicDescription],
) -> str | None:
    if table is None:
        return "the Faust application has no such table"
    if store not in stores:
        return f"the topology has no such store with a changelog; it has {sorted(stores)}"
    if stores[store] == table.changelog:
        return "both have the same changelog topic. Give the store another name"
    found = existing.get(table.changelog)
    if found is None:
        return f"topic {table.changelog!r} does not exist: did the application run on this cluster?"
    needed = _partitions(plan, store)
    if found.partitions != needed:
        return (
            f"{table.changelog!r} has {found.partitions} partitions and the store's inputs have"
            f" {needed}: the topology does not read what the agent reads"
        )
    return window_problem(table, plan.topology.stores[store])


def _tables_of_stores(tables: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, store in tables.items():
        found.setdefault(store, []).append(name)
    return found


def _is_own(plan: BoundPlan, store: str) -> bool:
    return plan.topology.stores[store].source_topic is None


def _partitions(plan: BoundPlan, store: str) -> int:
    return max(task.partition for task in _tasks(plan, store)) + 1


def _tasks(plan: BoundPlan, store: str) -> list[TaskId]:
    return [
        task_id
        for task_id in plan.task_ids()
        if any(spec.name == store for spec in plan.sub_topology(task_id).stores)
    ]


def _offsets(settings: Mapping[str, Any], plan: BoundPlan) -> dict[TopicPartition, int]:
    inputs = _inputs_of_others(plan)
    found = committed_offsets(settings, plan.application_id, inputs)
    offsets = {tp: one.offset for tp, one in found.items() if one.offset is not None}
    bounds = log_bounds(settings, inputs)
    unread = [str(tp) for tp in inputs if tp not in offsets and bounds[tp].start < bounds[tp].end]
    if not offsets or unread:
        raise UpgradeError(
            f"Faust's tables were not taken over. Group {plan.application_id!r} has not committed"
            f" an offset of {', '.join(unread) or 'any input'}, so its position there is not"
            " known. Let the Faust application read its inputs, and stop it with SIGTERM"
        )
    return offsets


def _inputs_of_others(plan: BoundPlan) -> list[TopicPartition]:
    """Return what Faust has read; our own repartition topics do not exist yet."""
    read = (tp for task_id in plan.task_ids() for tp in plan.input_partitions(task_id))
    return [tp for tp in read if tp.topic not in plan.repartition_topics]


def _check_regrouped_were_read(settings: Mapping[str, Any], admin: Any, plan: BoundPlan) -> None:
    """Raises UpgradeError where records wait in topics of Faust's group_by.

    Their inputs were read and committed, but no table has counted them, and no store would.
    """
    names = [
        t for t in admin.topic_names() if t.endswith(_REGROUPED) and t not in plan.subscription
    ]
    of_topics = {
        name: [TopicPartition(name, number) for number in range(one.partitions)]
        for name, one in admin.describe_topics(names).items()
    }
    for partitions in of_topics.values():
        found = committed_offsets(settings, plan.application_id, partitions)
        if not found:  # of another group
            continue
        waiting = [str(tp) for tp in partitions if _has_unread(settings, tp, found.get(tp))]
        if waiting:
            raise UpgradeError(
                "Faust's tables were not taken over. Records that its group_by() wrote wait unread"
                f" in {', '.join(waiting)}: their inputs count as read, and no table has them."
                " Start the Faust application again, let it read its topics to their ends, and stop"
                " it with SIGTERM"
            )


def _has_unread(
    settings: Mapping[str, Any], partition: TopicPartition, committed: Committed | None
) -> bool:
    bounds = log_bounds(settings, [partition])[partition]
    start = max(bounds.start, (committed and committed.offset) or 0)
    # The last record may be followed by a transaction marker, so the end offsets are not enough.
    return any(
        read_partition(settings, partition, start=start, end=bounds.stable_end, may_skip=True)
    )


def _create(admin: Any, wanted: Collection[Any], existing: Mapping[str, Any]) -> None:
    missing = [topic for topic in wanted if topic.name not in existing]
    if missing:
        admin.create_topics(missing)


class _Adoption:
    """The one transaction."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        plan: BoundPlan,
        offsets: Mapping[TopicPartition, int],
        pairs: list[_Pair],
        convert: Mapping[str, Callable[[Any], Any]],
    ) -> None:
        self._settings = settings
        self._plan = plan
        self._offsets = offsets
        self._pairs = pairs
        self._convert = convert
        self._ends: dict[TopicPartition, int] = {}

    def write(self, producer: Any) -> dict[str, int]:
        """Every row, or none; store to the number of its rows."""
        try:
            producer.init_transactions()  # and ends what an attempt that crashed left open
            producer.begin()
            try:
                rows = {pair.store: self._write_table(producer, pair) for pair in self._pairs}
                producer.flush()
                self._check_faust_is_stopped()
            except BaseException:
                with suppress(BrokerError):
                    producer.abort()
                raise
            producer.commit()
        finally:
            producer.close()
        return rows

    def _write_table(self, producer: Any, pair: _Pair) -> int:
        count = 0
        topic = self._plan.changelog_topics[pair.store]
        assert topic is not None
        for number in range(_partitions(self._plan, pair.store)):
            source = TopicPartition(pair.table.changelog, number)
            self._ends[source] = log_bounds(self._settings, [source])[source].end
            records = list(self._records(pair, topic, source))
            count += sum(record[3] is not None for record in records)
            for start in range(0, len(records), _BATCH):
                producer.produce(records[start : start + _BATCH])
        return count

    def _records(self, pair: _Pair, topic: str, source: TopicPartition) -> Iterator[ProducedFields]:
        """Yield the rows of a partition, older windows first; existing rows are replaced."""
        spec = self._plan.topology.stores[pair.store]
        writes = TableRowWriter(spec, topic, self._convert.get(pair.table.name))
        target = source._replace(topic=topic)
        found = []
        for record in latest_records(self._settings, source).values():
            try:
                row = pair.table.row(record.key(), record.value())
                key, value = writes.logged(row)
            except Exception as error:
                raise RestoreError(
                    f"{source}, offset {record.offset()}: a row of table {pair.table.name!r} does"
                    f" not become one of store {pair.store!r}: {type(error).__name__}:"
                    f" {text_of(error)}."
                    " Nothing was written. Is the value of another type than the store's? convert="
                    " has a function for it"
                ) from error
            time_ms = record.timestamp()[1] if row.start_ms is None else row.start_ms
            found.append((row.start_ms or 0, key, value, time_ms))
        kept = {key for _, key, _, _ in found}
        for key in latest_records(self._settings, target):
            if key not in kept:
                yield topic, source.partition, key, None, 0, None
        for _, key, value, time_ms in sorted(found, key=lambda one: one[0]):
            yield topic, source.partition, key, value, time_ms, None

    def _check_faust_is_stopped(self) -> None:
        """Raises if Faust has run meanwhile: then the rows do not match the offsets."""
        commit_without_members(self._settings, self._plan.application_id, self._offsets)
        bounds = log_bounds(self._settings, self._ends)
        grown = [str(tp) for tp, end in self._ends.items() if bounds[tp].end != end]
        if grown:
            raise UpgradeError(
                f"Faust's tables were not taken over: {', '.join(grown)} changed during the"
                " migration. Stop every worker of the Faust application, and try again"
            )
