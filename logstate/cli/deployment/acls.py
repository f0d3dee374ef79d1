"""``logstate acls``: the permissions that an application needs on the brokers, and no others."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from logstate.cli.shared.options import BOOTSTRAP, ApplicationId, Json, Target, TopicPrefix
from logstate.cli.shared.printing import print_json, print_text
from logstate.contracts import setting_rules as rules
from logstate.contracts.errors import check

if TYPE_CHECKING:
    from logstate.admin.needed_acls import NeededAcl


def acls(
    wanted: Target,
    application_id: ApplicationId,
    principal: Annotated[
        str, typer.Option(help="Its principal; the default is User:<application id>.")
    ] = "",
    serve: Annotated[
        bool,
        typer.Option("--serve", help="With serve= or standby_replicas=: instances communicate."),
    ] = False,
    dead_letter_topic: Annotated[
        str | None, typer.Option(help="Topic to which its error handlers write failed records.")
    ] = None,
    topic_prefix: TopicPrefix = "",
    no_create: Annotated[
        bool,
        typer.Option("--no-create", help="All topics exist: see `logstate topics create`."),
    ] = False,
    bootstrap: Annotated[
        str,
        typer.Option(
            envvar=BOOTSTRAP, help="host:port,... of the brokers, for the printed commands."
        ),
    ] = "BROKER:9092",
    as_json: Json = False,
) -> None:
    """List the least permissions that an application needs, as kafka-acls commands.

    Example: `logstate acls spending:topology --application-id shop --serve`. Does not contact a
    broker. Topics that match a pattern are not known here: allow Read for each.
    """
    from logstate.admin.needed_acls import needed_acls, patterns_read
    from logstate.topology.dsl.topology_target import load_topology

    check(rules.application_id("application_id", application_id))
    topology = load_topology(wanted).with_topic_prefix(topic_prefix)
    needed = needed_acls(
        topology,
        application_id,
        serves=serve,
        dead_letter_topic=dead_letter_topic and topic_prefix + dead_letter_topic,
        creates=not no_create,
    )
    who = principal or f"User:{application_id}"
    patterns = patterns_read(topology)
    if as_json:
        listed = [{"principal": who, **acl._asdict()} for acl in needed]
        print_json({"application_id": application_id, "acls": listed, "patterns": patterns})
        return
    for command in commands(needed, who, bootstrap):
        print_text(command)
    for pattern in patterns:
        print_text(f"# and Read for every topic like {pattern!r}")


def commands(needed: Iterable[NeededAcl], principal: str, bootstrap: str) -> list[str]:
    """Return one command for each resource, with the reason as a comment above it."""
    found = []
    for (resource, name, is_prefix), group in groupby(needed, lambda acl: acl[:3]):
        several = list(group)
        operations = [word for acl in several for word in ("--operation", acl.operation)]
        pattern = ["--resource-pattern-type", "prefixed"] if is_prefix else []
        words = [
            *("kafka-acls.sh", "--bootstrap-server", bootstrap, "--add"),
            *("--allow-principal", principal, *operations, f"--{resource}", name, *pattern),
        ]
        reasons = "; ".join(dict.fromkeys(acl.why for acl in several))
        found.append(f"# {reasons}\n{shlex.join(words)}")
    return found
