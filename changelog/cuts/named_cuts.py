"""Create, find, list and delete named cuts.

A named cut is a copy. Each store that it covers gets a separate topic with as many partitions, to
which the records are copied that the store's changelog had at the cut (``cut_copies``). These
topics are not compacted and have no retention limit: a command deletes them, or the creation of the
next cut once they are expired. So a named cut can be read until its given expiration, and a read is
refused from then on.

Cost: the changelogs' size in reads, writes and disk space. The application is not involved and does
not wait.

For concurrent makers of cuts, and what a failed attempt leaves, see ``cut_catalog``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from logstate.changelog.cuts.cut_catalog import CutCatalog
from logstate.changelog.cuts.cut_copies import CutCopies
from logstate.changelog.cuts.cut_value import CutValue
from logstate.changelog.cuts.latest_cut import cut_at_notes, newest_cut
from logstate.changelog.cuts.logs import (
    ChangelogSource,
    check_topic_id,
    log_reader,
    read_manifest,
    sources_of,
)
from logstate.changelog.cuts.named_cut import (
    NamedCut,
    StoreCopy,
    check_cut_name,
    parse_named_cut,
)
from logstate.changelog.cuts.snapshots import snapshot, snapshot_clients
from logstate.contracts.clients import Admin, Cluster, NewTopic
from logstate.contracts.clock import SystemClock
from logstate.contracts.errors import (
    ConfigError,
    LogstateError,
    RestoreError,
    TopicError,
    check,
)
from logstate.contracts.records import TopicPartition
from logstate.contracts.setting_rules import duration, durations, shown
from logstate.contracts.topic_names import cut_copy_topic, named_cuts_topic

#: a copy keeps all records, regardless of their event times
_KEPT = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": str(2**63 - 1),
}
_LARGEST = "max.message.bytes"
#: the client's maximum; the topics' own limits apply
_ANY_SIZE = {"message.max.bytes": "1000000000"}
#: dates end in the year 9999
_LONGEST = timedelta(days=36_500)
_WHY = ". Leave it out, and the cut is kept until it is deleted"


def create_cut(
    bootstrap: str,
    application: str,
    name: str,
    *,
    stores: Collection[str] | None = None,
    keep: timedelta | None = None,
    kafka: Mapping[str, str] | None = None,
    across_repartitions: timedelta | None = None,
) -> NamedCut:
    """Keep the newest cut of an application under a name.

    ``stores``: only these; by default all stores with a changelog. ``keep``: for how long it can be
    read; by default until ``delete_cut``. Expired cuts are deleted first. The application may be
    running. ``kafka`` is client configuration (librdkafka names). ``across_repartitions``: have all
    tasks cut together instead, so that nothing is in flight in repartition topics, and try for this
    long.

    Raises ConfigError if a cut of this name exists, is being made, or was left incomplete, if a
    store does not exist, or if repartition topics form a cycle; SnapshotError if the tasks did not
    cut together in time; TopicError if the application has never run; RestoreError if the cut is
    deleted while it is being made; RestoreError and BrokerError as ``latest_cut`` does. An
    incomplete cut is deleted then::

        create_cut("localhost:9092", "shop", "before-v2", keep=timedelta(days=30))
        spark.read.format("logstate").option("cut", "before-v2")
    """
    check_cut_name(name)
    _check_wanted(stores, keep, across_repartitions)
    config = {**(kafka or {}), "bootstrap.servers": bootstrap}
    manifest, _ = read_manifest(config, application)
    wanted = _changelogs_of(application, manifest, stores)

    cluster = _cluster(config)
    # Without a repartition topic nothing is in flight.
    across = across_repartitions if manifest.get("topics") else None
    with _shelf(config, application, cluster) as shelf:
        shelf.delete_expired()
        sources = [one for one in sources_of(config, manifest).values() if one.topic in wanted]
        topics = {one.topic: cut_copy_topic(application, name, one.name) for one in sources}
        with shelf.making(name) as making, _cuts(config, application, cluster, across) as found:
            ids = making.create_topics(_new_copies(shelf.admin, sources, topics))
            copies = CutCopies(config, shelf.producer, sources, topics)
            cut = copies.follow(*found)
            kept = {
                store: StoreCopy(entry, topics[one.topic], ids[topics[one.topic]], copies.ends(one))
                for one in sources
                for store, entry in wanted[one.topic].items()
            }
            now_ms = _now_ms()
            until_ms = None if keep is None else now_ms + int(keep.total_seconds() * 1000)
            made = NamedCut(name, now_ms, until_ms, cut, dict(sorted(kept.items())))
            making.complete(made)
            return made


def list_cuts(
    bootstrap: str, application: str, *, kafka: Mapping[str, str] | None = None
) -> list[NamedCut]:
    """Return the named cuts of an application, oldest first; expired cuts are included.

    Raises BrokerError if no broker answers, RestoreError if a record is damaged.
    """
    config = {**(kafka or {}), "bootstrap.servers": bootstrap}
    found, damaged = _stored(config, application)
    for error in damaged.values():
        raise error
    return sorted(found.values(), key=lambda one: one.created_at_ms)


def find_cut(config: Mapping[str, Any], application: str, name: str) -> NamedCut:
    """Return the cut of this name.

    Raises ConfigError, with the names of existing cuts, if there is none; RestoreError if its
    record is damaged.
    """
    found, damaged = _stored(config, application)
    if name in damaged:
        raise damaged[name]
    if name not in found:
        raise ConfigError(
            f"application {application!r} has no cut {name!r}; it has {sorted(found)}; "
            "`logstate cut create` creates one of the newest state"
        )
    return found[name]


def check_copy(config: Mapping[str, Any], named: NamedCut, store: str) -> StoreCopy:
    """Return where a cut keeps a store.

    Raises RestoreError if the cut is expired or its copy is incomplete, ConfigError if the store
    is not in it.
    """
    kept = named.copy_of(store, _now_ms())
    try:
        found = log_reader().log_topics(config, [kept.topic])[kept.topic]
    except TopicError as error:
        raise RestoreError(
            f"the cut {named.name!r} kept {store!r} in {kept.topic!r}, which does not exist: the "
            "topic was deleted, so the cut is lost; read a newer cut"
        ) from error
    check_topic_id(kept.topic, kept.topic_id, found.topic_id, "the cut's")
    logs = [TopicPartition(kept.topic, n) for n in kept.ends]
    for log, bounds in log_reader().log_bounds(config, logs).items():
        if bounds.start > 0 or bounds.end < kept.ends[log.partition]:
            raise RestoreError(
                f"{log} has the offsets {bounds.start} to {bounds.end}, and the cut {named.name!r} "
                f"was kept in 0 to {kept.ends[log.partition]}: records were deleted there, so the "
                "cut cannot be read any more; read a newer one"
            )
    return kept


def delete_cut(
    bootstrap: str, application: str, name: str, *, kafka: Mapping[str, str] | None = None
) -> None:
    """Delete a named cut, or the remains of an incomplete one.

    If it is being made, its maker fails.

    Raises ConfigError if nothing of this name exists, BrokerError if no broker answers.
    """
    check_cut_name(name)
    config = {**(kafka or {}), "bootstrap.servers": bootstrap}
    with _shelf(config, application, _cluster(config)) as shelf:
        shelf.abandon(name)


def incomplete_cuts(
    bootstrap: str, application: str, *, kafka: Mapping[str, str] | None = None
) -> list[str]:
    """Names of cuts that are being made, or were never completed. Raises BrokerError."""
    config = {**(kafka or {}), "bootstrap.servers": bootstrap}
    with _shelf(config, application, _cluster(config)) as shelf:
        return shelf.incomplete()


def _new_copies(
    admin: Admin, sources: Iterable[ChangelogSource], topics: Mapping[str, str]
) -> list[NewTopic]:
    """Return the topics of the copies, with the maximum message size of their changelogs."""
    new = []
    for one in sources:
        try:
            config = admin.topic_configs([one.topic])[one.topic]
        except LogstateError:  # without the permission, use the brokers' default
            config = {}
        largest = {name: config[name] for name in (_LARGEST,) if config.get(name)}
        new.append(NewTopic(topics[one.topic], one.partitions, -1, {**_KEPT, **largest}))
    return new


@contextmanager
def _cuts(
    config: Mapping[str, Any], application: str, cluster: Cluster, across: timedelta | None
) -> Iterator[tuple[Callable[[], CutValue], Callable[[], CutValue] | None]]:
    """Yield the function that returns cuts to copy up to, and one that returns a first cut."""

    def newest() -> CutValue:
        return newest_cut(config, application)

    if across is None:
        yield newest, None
        return
    with snapshot_clients(config, application, cluster) as clients:
        seconds = across.total_seconds()
        yield lambda: cut_at_notes(config, application, lambda: snapshot(clients, seconds)), newest


def _check_wanted(stores: object, keep: object, timeout: object) -> None:
    """Raises ConfigError, before anything is read or made."""
    wrong = stores is not None and (isinstance(stores, str) or not isinstance(stores, Collection))
    check(
        durations("a named cut", timeout=timeout, optional=True),
        duration("keep of a named cut", keep, unit="days", optional=True, most=_LONGEST, why=_WHY),
        [f"stores of a named cut must be names, as ['counts']; got {shown(stores)}"] * wrong,
    )


def _changelogs_of(
    application: str, manifest: Mapping[str, Any], stores: Collection[str] | None
) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return changelog to the requested stores that are in it."""
    logged = {name: e for name, e in manifest["stores"].items() if e.get("changelog_topic")}
    missing = sorted(set(stores or ()) - logged.keys())
    if missing or not logged:
        raise ConfigError(
            f"{application!r} has no stores {missing} with a changelog; it has {sorted(logged)}"
        )
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for name, entry in logged.items():
        if stores is None or name in stores:
            found.setdefault(entry["changelog_topic"], {})[name] = {**entry, "name": name}
    return found


def _stored(
    config: Mapping[str, Any], application: str
) -> tuple[dict[str, NamedCut], dict[str, RestoreError]]:
    """Return the cuts by their names, and the errors of records that cannot be read."""
    names = TopicPartition(named_cuts_topic(application), 0)
    try:
        values = log_reader().latest_values(config, names)
    except TopicError:  # there never was a cut
        return {}, {}
    return parsed_cuts(values, application)


def parsed_cuts(
    values: Mapping[bytes, bytes], application: str
) -> tuple[dict[str, NamedCut], dict[str, RestoreError]]:
    """Parse records of cuts; a damaged record does not affect other cuts."""
    found: dict[str, NamedCut] = {}
    damaged: dict[str, RestoreError] = {}
    for key, value in values.items():
        name = key.decode("utf-8", "replace")
        try:
            found[name] = parse_named_cut(value, application, name)
        except RestoreError as error:
            damaged[name] = error
    return found, damaged


def _cluster(config: Mapping[str, Any]) -> Cluster:
    log_reader()  # reports a missing client library
    from logstate.kafka.cluster import KafkaCluster

    given = {**_ANY_SIZE, **config}
    return KafkaCluster(str(given.pop("bootstrap.servers")), given, client_id="logstate-cuts")


@contextmanager
def _shelf(config: Mapping[str, Any], application: str, cluster: Cluster) -> Iterator[CutCatalog]:
    admin, producer = cluster.admin(), cluster.plain_producer()
    try:
        yield CutCatalog(
            application,
            admin,
            producer,
            lambda: _stored(config, application)[0],
            SystemClock(),
            damaged=lambda: _stored(config, application)[1],
        )
    finally:
        producer.close()
        admin.close()


def _now_ms() -> int:
    return int(time.time() * 1000)
