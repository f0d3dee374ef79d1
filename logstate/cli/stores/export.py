"""``logstate export``: write the state of a store to parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from logstate.cli.shared.options import ApplicationId, Bootstrap, CommandConfig, Json, Registry
from logstate.cli.shared.printing import print_json, print_text
from logstate.cli.shared.stored_state import client_settings


def export(
    application_id: ApplicationId,
    store: Annotated[str, typer.Argument(help="A store of it; `logstate stores` lists them.")],
    to: Annotated[Path, typer.Option(help="FILE.parquet, or a directory: a file per partition.")],
    bootstrap: Bootstrap,
    cut: Annotated[str, typer.Option(help="Or `latest`, or the text of a cut.")] = "latest-commit",
    registry: Registry = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Write the state of a store at one cut as parquet, by default at each task's newest commit.

    Example: `logstate export spent --to spent.parquet --application-id shop`. Reads the changelog;
    the application need not run, and is not changed. Existing output is replaced only when
    everything is written. Each file contains its cut, as `logstate.cut` in its metadata.
    """
    from logstate.changelog.reading.parquet_export import write_parquet
    from logstate.changelog.reading.store_read import read

    options: dict[str, Any] = {} if registry is None else {"schemaRegistry": registry}
    kafka = client_settings(command_config)
    table = read(application_id, store, bootstrap=bootstrap, cut=cut, kafka=kafka, **options)
    files = write_parquet(table, to)
    rows = sum(files.values())
    if as_json:
        listed = [{"path": str(path), "rows": count} for path, count in files.items()]
        found = {"application_id": application_id, "store": store, "rows": rows, "files": listed}
        print_json({**found, "cut": table.cut})
    else:
        print_text(f"{rows:,} rows of {store!r} in {to}")
