"""``logstate get``: print the rows of one key of a store, at the newest commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from logstate.cli.shared.stored_logs import LogAtCut, Stored
    from logstate.serdes.described_keys import LookupKey
    from logstate.topics.displayed_records import DisplayedRecord, RecordReader, StoredLog

#: exit status if the store has no row for the key
NO_ROW = 6


def get(
    application_id: ApplicationId,
    store: Annotated[str, typer.Argument(help="A store of it; `logstate stores` lists them.")],
    key: Annotated[
        str,
        typer.Argument(
            help="As it is printed: ada, -42, true; objects as JSON; bytes also as 0x00. After `--`"
            " a key that is also an option, such as --json."
        ),
    ],
    bootstrap: Bootstrap,
    registry: Registry = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Print the rows of one key of a store, at the newest commit of its task; all of its windows.

    Example: `logstate get spent ada --application-id shop`. Reads the changelog (one partition of
    it, if the key's is known), so it takes as long as that is large. The application need not run;
    nothing is changed. Ends with status 6 if the store has no row for the key.
    """
    from logstate.cli.shared.stored_logs import stored_by, stored_log
    from logstate.serdes.described_keys import lookup_key
    from logstate.topics.displayed_records import RecordReader

    settings = {"bootstrap.servers": bootstrap, **client_settings(command_config)}
    stored = stored_by(settings, application_id)
    log = stored_log(settings, stored, store)
    registry_config = registry_settings(registry)
    wanted = lookup_key(key, log.key, registry_config)
    reader = RecordReader(log, log.key, log.value, registry_config)
    found = _rows(settings, stored, log, wanted, reader)
    if as_json:
        rows = [one.as_plain_data() for one in found]
        print_json({"application_id": application_id, "store": store, "rows": rows})
    elif found:
        _print(found)
    else:
        print_text(f"Store {store!r} has no row for {key!r}.")
    raise typer.Exit(0 if found else NO_ROW)


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
