"""``logstate handover``: check whether Kafka Streams on the JVM may take an application over."""

from __future__ import annotations

from rich.table import Table

from logstate.admin import handover as handovers
from logstate.cli.shared.options import Bootstrap, CommandConfig, Json, Stopped
from logstate.cli.shared.printing import fail, print_json, print_table, print_text
from logstate.cli.shared.stored_state import with_manifest
from logstate.contracts.clients import Admin, run_steps
from logstate.topics.manifest_changes import Manifest


def handover(
    application_id: Stopped,
    bootstrap: Bootstrap,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Check whether Kafka Streams on the JVM may take an application over, and list its stores.

    Ends with status 0 if no instance is running, otherwise with 1.
    """

    def look(admin: Admin, stored: Manifest | None) -> None:
        if stored is None:
            fail(f"application {application_id!r} has no manifest: logstate never ran it")
        run_steps(handovers.check_group_is_empty(admin, application_id))
        stores = [store._asdict() for store in handovers.stores_for_the_jvm(stored)]
        if as_json:
            print_json({"application_id": application_id, "stores": stores})
            return
        table = Table("store", "name on the JVM", "kind", "remark")
        for store in stores:
            table.add_row(*("" if cell is None else str(cell) for cell in store.values()))
        print_table(table)
        print_text(
            f"no instance is running: start Kafka Streams with application.id={application_id}"
        )
        print_text(
            "use group.protocol=streams only if the last one here had group_protocol='classic'"
        )

    with_manifest(application_id, bootstrap, command_config, look)
