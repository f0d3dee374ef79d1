"""``logstate acls``: what the brokers have to allow an application, and nothing more."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from itertools import groupby
from typing import Annotated

import typer

from logstate.admin.needed_acls import NeededAcl, needed_acls, patterns_read
from logstate.cli.shared.options import Json, Target
from logstate.cli.shared.printing import print_json, print_text
from logstate.contracts import setting_rules as rules
from logstate.contracts.errors import check
from logstate.topology.dsl.topology_target import load_topology


def acls(
    wanted: Target,
    application_id: Annotated[str, typer.Option(help="Of the application that is to run it.")],
    principal: Annotated[
        str, typer.Option(help="Who it logs in as; User:<application id> when not given.")
    ] = "",
    serve: Annotated[
        bool,
        typer.Option("--serve", help="With serve= or standby_replicas=: instances meet."),
    ] = False,
    dead_letter_topic: Annotated[
        str | None, typer.Option(help="Where its error handlers write what failed.")
    ] = None,
    no_create: Annotated[
        bool,
        typer.Option("--no-create", help="All topics are there: see `logstate topics create`."),
    ] = False,
    bootstrap: Annotated[
        str, typer.Option(help="host:port,... of the brokers, to stand in the commands.")
    ] = "BROKER:9092",
    as_json: Json = False,
) -> None:
    """The least list of rights that an application needs, as commands of kafka-acls.

    Asks no broker. Topics that are read by a pattern are not known here: allow Read for each.
    """
    check(rules.application_id("application_id", application_id))
    topology = load_topology(wanted)
    needed = needed_acls(
        topology,
        application_id,
        serves=serve,
        dead_letter_topic=dead_letter_topic,
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
    """One for each resource, with why as a comment above it."""
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
