"""``logstate get``: print the rows of a key, or of an indexed value, at the newest commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from logstate.cli.shared.options import ApplicationId, Bootstrap, CommandConfig, Json, Registry
from logstate.cli.shared.printing import (
    in_words,
    print_json,
    print_table,
    print_text,
    window_in_words,
)
from logstate.cli.shared.stored_state import client_settings, registry_settings
from logstate.contracts.clock import date_of
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ConfigError, SerdeError, StoreArgumentError
from logstate.contracts.records import FetchedRecord

if TYPE_CHECKING:
    from logstate.cli.shared.stored_logs import LogAtCut, Stored
    from logstate.contracts.indexes import IndexSpec
    from logstate.contracts.stores import StoreSpec
    from logstate.serdes.described_keys import LookupKey
    from logstate.topics.displayed_records import DisplayedRecord, RecordReader, StoredLog

#: exit status if the store has no row for the key
NO_ROW = 6


def get(
    application_id: ApplicationId,
    store: Annotated[str, typer.Argument(help="A store of it; `logstate stores` lists them.")],
    bootstrap: Bootstrap,
    key: Annotated[
        str | None,
        typer.Argument(
            help="As it is printed: ada, -42, true; objects as JSON; bytes also as 0x00. After `--`"
            " a key that is also an option, such as --json."
        ),
    ] = None,
    by: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="INDEX VALUE", help="Instead of KEY: rows by an index of the --topology."
        ),
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(metavar="MODULE:ATTRIBUTE", help="The topology that declares the index."),
    ] = None,
    registry: Registry = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Print the rows of one key of a store, at the newest commit of its task; all of its windows.

    Example: `logstate get spent ada --application-id shop`. Reads the changelog (one partition of
    it, if the key's is known), so it takes as long as that is large. `logstate get orders --by city
    Oslo --topology shop:topology` prints the rows that an index has for a value: it reads the whole
    changelog, and calls the function of the index for every row. The application need not run;
    nothing is changed. Ends with status 6 if the store has no such row.
    """
    from logstate.cli.shared.stored_logs import stored_by, stored_log
    from logstate.serdes.described_keys import lookup_key
    from logstate.topics.displayed_records import RecordReader

    indexed = _checked(store, key, by, topology)
    settings = {"bootstrap.servers": bootstrap, **client_settings(command_config)}
    stored = stored_by(settings, application_id)
    log = stored_log(settings, stored, store)
    registry_config = registry_settings(registry)
    reader = RecordReader(log, log.key, log.value, registry_config)
    if indexed is not None:
        found = _rows_by(settings, stored, log, indexed, reader)
    else:
        wanted = lookup_key(key or "", log.key, registry_config)
        found = _rows(settings, stored, log, wanted, reader)
    if as_json:
        rows = [one.as_plain_data() for one in found]
        print_json({"application_id": application_id, "store": store, "rows": rows})
    elif found:
        _print(found)
    else:
        wanted_text = f"{key!r}" if by is None else f"{by[1]!r} in index {by[0]!r}"
        print_text(f"Store {store!r} has no row for {wanted_text}.")
    raise typer.Exit(0 if found else NO_ROW)


class _Indexed(NamedTuple):
    """What ``--by`` asks for: an index of a store of the topology, and a value."""

    spec: StoreSpec
    one: IndexSpec
    #: what the index has for the value; of tuples, it begins with it
    entry: bytes


def _checked(
    store: str, key: str | None, by: tuple[str, str] | None, topology: str | None
) -> _Indexed | None:
    """Return what --by means; None for a key. Raises ConfigError unless there is one of them."""
    from logstate.topology.dsl.topology_target import load_topology

    if (key is None) == (by is None):
        given = "neither" if key is None else "both"
        raise ConfigError(f"give a KEY, or --by INDEX VALUE; found {given}")
    if by is None:
        if topology is not None:
            raise ConfigError("--topology is for --by INDEX VALUE: a KEY is read without it")
        return None
    if topology is None:
        raise ConfigError(
            f"--by {by[0]} needs --topology MODULE:ATTRIBUTE: the function of an index is in the"
            " program, and not in what the application has stored"
        )
    specs = load_topology(topology).stores
    if store not in specs:
        has = ", ".join(sorted(specs)) or "none"
        raise ConfigError(f"topology {topology!r} has no store {store!r}; it has {has}")
    return _indexed(specs[store], *by)


def _indexed(spec: StoreSpec, index: str, text: str) -> _Indexed:
    """Return the index of a store, and what it has for the value with this text."""
    from logstate.contracts.indexes import index_named

    try:
        one = index_named(spec.name, spec.indexes, index)
    except StoreArgumentError as error:
        raise ConfigError(f"--by {index}: {error}") from error
    serde: Any = one.serde
    try:
        return _Indexed(spec, one, one.bound(serde.of_text(text)))
    except (SerdeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"--by {index} {text}: {text!r} is not a value of the index: {text_of(error)}"
        ) from error


def _rows_by(
    settings: dict[str, str],
    stored: Stored,
    log: StoredLog,
    wanted: _Indexed,
    reader: RecordReader,
) -> list[DisplayedRecord]:
    """Return the rows of an indexed value: partition by partition, in the order of their keys."""
    from logstate.cli.shared.stored_logs import logs_at_cut, rows_of_key

    rows = (
        record
        for at in logs_at_cut(settings, stored, log)
        for record in rows_of_key(settings, log, at, lambda _: True)
    )
    return [reader.shown(record) for record in indexed_rows(rows, log, wanted)]


def indexed_rows(
    rows: Iterable[FetchedRecord], log: StoredLog, wanted: _Indexed
) -> Iterator[FetchedRecord]:
    """Yield the rows that an index has for a value.

    Raises SerdeError if a value does not decode, StoreError if the function of the index raises.
    """
    from logstate.changelog.stores.kinds import kind_of
    from logstate.contracts.indexes import index_error

    decode = wanted.spec.value.deserializer(log.topic, False)
    value_of, one = kind_of(log.entry).value_of, wanted.one
    for record in rows:
        key, data = record.key() or b"", record.value()
        if data is None:
            continue
        value = decode(value_of(key, data, log.name))
        try:
            indexed = one.of(value)
            is_it = indexed is not None and one.encode(indexed).startswith(wanted.entry)
        except Exception as error:
            raise index_error(log.name, one, key, error) from error
        if is_it:
            yield record


def _rows(
    settings: dict[str, str],
    stored: Stored,
    log: StoredLog,
    wanted: LookupKey,
    reader: RecordReader,
) -> list[DisplayedRecord]:
    """Return the rows of the first partition that has the key: a key is in only one."""
    from logstate.cli.shared.stored_logs import logs_at_cut, rows_of_key

    for at in _in_likely_order(logs_at_cut(settings, stored, log), wanted.data):
        found = [reader.shown(one) for one in rows_of_key(settings, log, at, wanted.is_it)]
        if found:
            return found
    return []


def _in_likely_order(logs: list[LogAtCut], data: bytes | None) -> list[LogAtCut]:
    """Sort the partition of Kafka's partitioner first; an application may have another one."""
    from logstate.contracts.partitioner import partition_of

    if data is None:
        return logs
    likely = partition_of(data, len(logs))
    return sorted(logs, key=lambda at: at.partition.partition != likely)


def _print(rows: list[DisplayedRecord]) -> None:
    from rich.table import Table

    has_windows, element = rows[0].window is not None, rows[0].element
    columns = ["window"] if has_windows else [] if element is None else [element[0]]
    table = Table("key", *columns, "value", "time")
    for one in rows:
        parts = [window_in_words(one.window)] if has_windows else []
        parts += [] if one.element is None else [in_words(one.element[1])]
        table.add_row(in_words(one.key), *parts, in_words(one.value), date_of(one.timestamp_ms))
    print_table(table)
