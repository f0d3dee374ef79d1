"""``logstate stores``: list the stores of an application, from its manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logstate.cli.shared.options import ApplicationId, Bootstrap, CommandConfig, Json
from logstate.cli.shared.printing import fail, print_json, print_table
from logstate.cli.shared.stored_state import with_manifest
from logstate.contracts.clients import Admin

if TYPE_CHECKING:
    from logstate.topics.manifest_changes import Entry, Manifest


def stores(
    application_id: ApplicationId,
    bootstrap: Bootstrap,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """List the stores of an application, their formats, and their changelogs.

    Example: `logstate stores --application-id shop`. It need not run; nothing is changed. Spark
    reads their contents (docs/spark.md).
    """
    from rich.table import Table

    def check(_: Admin, stored: Manifest | None) -> None:
        if stored is None:
            fail(f"application {application_id!r} has no manifest: it never ran on these brokers")
        entries = stored["stores"]
        if as_json:
            print_json({"application_id": application_id, "stores": entries})
            return
        table = Table("store", "kind", "key", "value", "partitions", "changelog")
        for name, entry in entries.items():
            table.add_row(name, *_cells(entry))
        print_table(table)

    with_manifest(application_id, bootstrap, command_config, check)


def _cells(entry: Entry) -> list[str]:
    log = entry["changelog_topic"] or "none: local only"
    partitions = str(entry["partitions"])
    return [entry["kind"], _format(entry["key"]), _format(entry["value"]), partitions, log]


def _format(described: Any) -> str:
    """Return the name of a serde's format, with that of its type if it has one."""
    if not isinstance(described, dict):
        return str(described)
    name = str(described.get("format", "unknown"))
    of_type = described.get("name") or described.get("type")
    return f"{name} of {of_type}" if isinstance(of_type, str) else name
