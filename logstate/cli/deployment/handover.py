"""``logstate handover``: whether Kafka Streams on the JVM may go on."""

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
    """Whether Kafka Streams on the JVM may take an application over now, and its stores' names.

    Ends with status 0 where no instance lives, else with 1.
    """

    def look(admin: Admin, stored: Manifest | None) -> None:
        if stored is None:
            fail(f"application {application_id!r} has no manifest: logstate never ran it")
        run_steps(handovers.check_nobody_lives(admin, application_id))
        stores = [store._asdict() for store in handovers.stores_for_the_jvm(stored)]
        if as_json:
            print_json({"application_id": application_id, "stores": stores})
            return
        table = Table("store", "name on the JVM", "kind", "remark")
        for store in stores:
            table.add_row(*("" if cell is None else str(cell) for cell in store.values()))
        print_table(table)
        print_text(
            f"no instance lives: Kafka Streams may start with application.id={application_id}"
        )
        print_text(
            "with group.protocol=streams only if the last one here had group_protocol='classic'"
        )

    with_manifest(application_id, bootstrap, command_config, look)
