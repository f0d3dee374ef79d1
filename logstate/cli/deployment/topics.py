"""``logstate topics``: create the topics of an application before its first start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from logstate.cli.deployment.plan import STATUS
from logstate.cli.shared.options import (
    ApplicationId,
    Bootstrap,
    CommandConfig,
    Forget,
    Json,
    Renamed,
    Target,
    TopicPrefix,
)
from logstate.cli.shared.printing import print_json, print_table, print_text
from logstate.cli.shared.stored_state import decisions, pair, with_manifest
from logstate.contracts import setting_rules as rules
from logstate.contracts.clients import Admin, NewTopic, TopicDescription, run_steps
from logstate.contracts.compatibility import Verdict, worst
from logstate.contracts.errors import UpgradeError, check

if TYPE_CHECKING:
    from logstate.topics.manifest_changes import Manifest
    from logstate.topics.required_topics import RequiredTopic, RequiredTopics
    from logstate.topology.plan.plan import Topology

#: exit status if a start would be refused, as of comparisons
REFUSED = STATUS[Verdict.REFUSED]

app = typer.Typer(help="Create the topics of an application.", no_args_is_help=True)


@app.callback()
def topics() -> None:
    """Create the topics of an application."""


@app.command("create")
def create(
    wanted: Target,
    application_id: ApplicationId,
    bootstrap: Bootstrap,
    replication_factor: Annotated[
        int, typer.Option(help="As of Application; -1 is the brokers' default.")
    ] = -1,
    config: Annotated[
        list[str] | None, typer.Option(help="name=value, as topic_config= of Application.")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Also the topic in which instances announce themselves.")
    ] = False,
    with_inputs: Annotated[
        bool,
        typer.Option(
            "--with-inputs",
            help="First create missing topics that it reads and writes, for development.",
        ),
    ] = False,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help="Of these; by default as many as the existing inputs have, or 1."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show which topics are needed; create none.")
    ] = False,
    topic_prefix: TopicPrefix = "",
    renamed: Renamed = None,
    forget: Forget = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Create the topics that a first start would create, or show them.

    Example: `logstate topics create spending:topology --application-id spending --with-inputs`.
    Topics that it reads and writes have to exist, or are created by --with-inputs, except those
    that a pattern or a function chooses. The partition counts of the inputs determine those of the
    internal topics. Existing topics are compared and never changed. Ends with status 4, and creates
    nothing, if a start would be refused; with 3 if a decision about stored state is needed.
    """
    from logstate.directory.directory_link import DirectoryTopic
    from logstate.topics.required_topics import RequiredTopic, topics_ahead
    from logstate.topology.dsl.topology_target import load_topology

    check(rules.application_id("application_id", application_id))
    overrides = dict(map(pair, config or ()))
    decided = decisions(renamed, forget)
    topology = load_topology(wanted).with_topic_prefix(topic_prefix)
    meeting = DirectoryTopic(application_id, replication_factor, overrides)

    def carry_out(admin: Admin, stored: Manifest | None) -> RequiredTopics:
        external = _external(admin, topology, partitions, replication_factor) if with_inputs else []
        admin = _create_first(admin, external, dry_run=dry_run)
        found = run_steps(
            topics_ahead(
                admin,
                topology,
                application_id,
                stored,
                replication_factor=replication_factor,
                overrides=overrides,
                others=[meeting.new()] if serve else [],
                decisions=decided,
            )
        )
        if not dry_run and not found.is_refused:
            admin.create_topics(found.missing)
        return found._replace(topics=[*(RequiredTopic(t, False) for t in external), *found.topics])

    try:
        found = with_manifest(application_id, bootstrap, command_config, carry_out)
    except UpgradeError as error:
        print_text(f"logstate: {error}", is_error=True)
        raise typer.Exit(STATUS[worst(error.changes)] or REFUSED) from None
    is_done = not dry_run and not found.is_refused
    _show(application_id, found, is_done=is_done, as_json=as_json)
    raise typer.Exit(REFUSED if found.is_refused else 0)


def _show(application_id: str, found: RequiredTopics, *, is_done: bool, as_json: bool) -> None:
    if as_json:
        print_json({"application_id": application_id, **_as_plain_data(found, is_done=is_done)})
    else:
        _print(found, is_done=is_done)


def _external(
    admin: Admin, topology: Topology, partitions: int | None, replication_factor: int
) -> list[NewTopic]:
    """Return the missing topics that the topology reads and writes."""
    from logstate.topics.bound_plan import BoundPlan
    from logstate.topics.manifest import external_topics_of

    names = dict(external_topics_of(BoundPlan("", topology, {})))
    existing = admin.describe_topics(sorted(names))
    inputs = {ref.name for sub in topology.sub_topologies for ref in sub.source_topics}
    counts = [one.partitions for name, one in existing.items() if name in inputs]
    count = max(counts, default=1) if partitions is None else partitions
    missing = sorted(names.keys() - existing.keys())
    return [NewTopic(name, count, replication_factor, {}) for name in missing]


def _create_first(admin: Admin, external: list[NewTopic], *, dry_run: bool) -> Admin:
    """Create topics, or return an admin that describes them as if they existed."""
    if dry_run:
        return cast("Admin", _WithTopics(admin, external))
    admin.create_topics(external)
    return admin


class _WithTopics:
    """An admin for a dry run: topics exist that are still to be created."""

    def __init__(self, admin: Admin, topics: list[NewTopic]) -> None:
        self._admin = admin
        self._topics = {one.name: TopicDescription("", one.partitions) for one in topics}

    def describe_topics(
        self, topics: Sequence[str], beginning: str | None = None
    ) -> dict[str, TopicDescription]:
        new = {name: one for name, one in self._topics.items() if name in topics}
        return {
            **new,
            **self._admin.describe_topics([t for t in topics if t not in new], beginning),
        }

    def topic_configs(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        return self._admin.topic_configs([name for name in topics if name not in self._topics])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._admin, name)


def _as_plain_data(found: RequiredTopics, *, is_done: bool) -> dict[str, Any]:
    return {
        "topics": [
            {
                **one.topic._asdict(),
                "exists": one.exists,
                "is_created": is_done and not one.exists,
                "differences": [
                    {"setting": name, "found": there, "chosen": chosen}
                    for name, there, chosen in one.differences
                ],
                "problem": one.problem,
            }
            for one in found.topics
        ],
        "problems": found.problems,
        "doubts": found.doubts,
        "is_refused": found.is_refused,
    }


def _print(found: RequiredTopics, *, is_done: bool) -> None:
    from rich.table import Table

    table = Table("topic", "partitions", "replication", "configuration", "", show_lines=True)
    for one in found.topics:
        topic = one.topic
        factor = "default" if topic.replication_factor < 0 else str(topic.replication_factor)
        config = "\n".join(f"{name}={value}" for name, value in topic.config.items())
        table.add_row(topic.name, str(topic.partitions), factor, config, _state(one, is_done))
    print_table(table)
    for line in (*found.problems, *found.doubts):
        print_text(line)


def _state(one: RequiredTopic, is_done: bool) -> str:
    if one.problem:
        return f"refused: {one.problem}"
    if not one.exists:
        return "created" if is_done else "missing"
    differences = [f"{name} is {there}" for name, there, _ in one.differences]
    return "there" if not differences else f"there, but {', '.join(differences)}"
