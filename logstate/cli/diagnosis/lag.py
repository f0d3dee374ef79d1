"""``logstate lag``: how far an application is behind."""

from __future__ import annotations

from functools import partial

from rich.table import Table

from logstate.cli.shared.options import ApplicationId, Bootstrap, CommandConfig, Json
from logstate.cli.shared.printing import print_json, print_table, print_text
from logstate.cli.shared.stored_state import client_settings, with_manifest
from logstate.contracts.clients import Admin, run_steps
from logstate.kafka.group_offsets import committed_offsets
from logstate.topics.committed_lag import committed_lags
from logstate.topics.manifest_changes import Manifest


def lag(
    application_id: ApplicationId,
    bootstrap: Bootstrap,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """How far each partition that an application reads is behind, by what it has committed.

    Counts offsets: the markers of transactions are among them, so a partition of the application's
    own topics may stay at 1 or 2 with nothing left to read. It need not run; nothing is changed.
    """
    settings = {"bootstrap.servers": bootstrap, **client_settings(command_config)}
    ask = partial(committed_offsets, settings, application_id)

    def look(admin: Admin, stored: Manifest | None) -> None:
        found = run_steps(committed_lags(admin, ask, application_id, stored))
        if as_json:
            rows = [one._asdict() for one in found]
            print_json({"application_id": application_id, "partitions": rows})
            return
        table = Table("topic", "partition", "committed", "end", "lag")
        for one in found:
            table.add_row(*("nothing" if cell is None else str(cell) for cell in one))
        print_table(table)
        print_text(f"{sum(one.lag for one in found):,} behind in {len(found)} partitions")

    with_manifest(application_id, bootstrap, command_config, look)
