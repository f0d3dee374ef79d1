"""``logstate handover``: check whether Kafka Streams on the JVM may take an application over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from logstate.cli.shared.options import Bootstrap, CommandConfig, Json, Stopped
from logstate.cli.shared.printing import fail, print_json, print_table, print_text
from logstate.cli.shared.stored_state import client_settings, cluster_of, with_manifest
from logstate.contracts.clients import Admin, Committed, run_steps
from logstate.contracts.errors import MembersLiveError
from logstate.contracts.records import TopicPartition

if TYPE_CHECKING:
    from logstate.directory.instance_info import InstanceInfo
    from logstate.topics.manifest_changes import Manifest


def handover(
    application_id: Stopped,
    bootstrap: Bootstrap,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Check whether Kafka Streams on the JVM may take an application over, and list its stores.

    Example: `logstate handover --application-id shop`. Ends with status 0 if no instance is
    running, otherwise with 1 and the instances.
    """
    from rich.table import Table

    from logstate.admin import handover as handovers
    from logstate.contracts.clock import SystemClock
    from logstate.directory.instance_info import describe_instances
    from logstate.kafka.group_offsets import committed_offsets

    settings = {"bootstrap.servers": bootstrap, **client_settings(command_config)}

    def check(admin: Admin, stored: Manifest | None) -> None:
        if stored is None:
            fail(f"application {application_id!r} has no manifest: logstate never ran it")
        try:
            run_steps(handovers.check_group_is_empty(admin, application_id))
        except MembersLiveError as error:
            cluster = cluster_of(bootstrap, command_config)
            known = describe_instances(application_id, cluster, admin, SystemClock())
            last = committed_offsets(settings, application_id, _inputs(admin, stored))
            raise MembersLiveError(f"{error}. {_instances_text(known, last)}") from error
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

    with_manifest(application_id, bootstrap, command_config, check)


def _inputs(admin: Admin, stored: Manifest) -> list[TopicPartition]:
    topics = admin.describe_topics([*stored.get("inputs", ()), *stored.get("topics", {})])
    return [TopicPartition(name, p) for name, one in topics.items() for p in range(one.partitions)]


def _instances_text(known: Iterable[InstanceInfo], last: Mapping[TopicPartition, Committed]) -> str:
    """Name the instances in the directory, or the writers of the last commits."""
    from logstate.changelog.cut import decode_cut

    named = [
        f"instance {entry.instance} ({entry.address or 'no address'}) with tasks"
        f" {', '.join(sorted(entry.tasks)) or 'none'}"
        for entry, is_alive in known
        if is_alive
    ]
    if named:
        return f"Alive: {'; '.join(named)}"
    found = (
        decode_cut(one.metadata, committed_offset=one.offset).cut
        for one in last.values()
        if one.offset is not None
    )
    writers = sorted({str(cut.writer.transactional_id) for cut in found if cut and cut.writer})
    return f"The last commits are by the transactional.id {', '.join(writers) or '(none)'}"
