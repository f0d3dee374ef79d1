"""``logstate cut``: manage named cuts of an application."""

from __future__ import annotations

import datetime
import json
import re
import threading
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from logstate.cli.shared.options import ApplicationId, Bootstrap, CommandConfig, Json
from logstate.cli.shared.printing import print_json, print_table, print_text
from logstate.cli.shared.stored_state import client_settings
from logstate.cli.shared.time_limit import time_limit
from logstate.contracts.clock import date_of
from logstate.contracts.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from logstate.changelog.cuts.named_cut import NamedCut

Name = Annotated[str, typer.Argument(help="Of the cut: letters, digits, - and _.")]

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}

#: how long the tasks may take to agree on a cut
_AGREEMENT_S = 30.0

app = typer.Typer(help="Manage named cuts of an application.", no_args_is_help=True)


@app.callback()
def cut() -> None:
    """Manage named cuts of an application."""


@app.command("create")
def create(
    application_id: ApplicationId,
    name: Name,
    bootstrap: Bootstrap,
    store: Annotated[
        list[str] | None, typer.Option(help="Only this store; may be given several times.")
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="30d|12h|45m", help="How long it can be read; by default until deleted."
        ),
    ] = None,
    across_repartitions: Annotated[
        bool,
        typer.Option(
            "--across-repartitions",
            help="All tasks cut together, so that nothing is in flight between them.",
        ),
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds in which it has to end; no limit by default, because copies take their"
            " time. The tasks have 30 to agree with --across-repartitions.",
        ),
    ] = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Keep the newest cut: copy its records of each store to topics without compaction.

    Example: `logstate cut create noon --keep 30d --application-id shop`. The application may be
    running, and does not wait. The copies are as large as the changelogs. Expired cuts are deleted
    first. Spark reads it with the option cut (docs/spark.md).
    """
    from logstate.changelog.cuts.named_cuts import create_cut

    agreement = seconds(_AGREEMENT_S if timeout is None else timeout)
    limit_s = threading.TIMEOUT_MAX if timeout is None else timeout
    with time_limit("cut create", limit_s, bootstrap, ends_itself=across_repartitions):
        made = create_cut(
            bootstrap,
            application_id,
            name,
            stores=store,
            keep=None if keep is None else duration(keep),
            kafka=client_settings(command_config),
            across_repartitions=agreement if across_repartitions else None,
        )
    _show(made, as_json=as_json)


@app.command("list")
def list_(
    application_id: ApplicationId,
    bootstrap: Bootstrap,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """List the named cuts, oldest first.

    Example: `logstate cut list --application-id shop`.
    """
    from logstate.changelog.cuts.named_cuts import incomplete_cuts, list_cuts

    kafka = client_settings(command_config)
    cuts = list_cuts(bootstrap, application_id, kafka=kafka)
    incomplete = incomplete_cuts(bootstrap, application_id, kafka=kafka)
    if as_json:
        rows = [_as_json(one) for one in cuts]
        print_json({"application_id": application_id, "cuts": rows, "incomplete": incomplete})
    else:
        print_table(_table(cuts, incomplete))


@app.command("show")
def show(
    application_id: ApplicationId,
    name: Annotated[
        str, typer.Argument(help="Of the cut; latest-commit: the newest cut at this moment.")
    ],
    bootstrap: Bootstrap,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Show what a cut covers; for latest-commit, the text to store and to pass to Spark.

    Example: `logstate cut show noon --application-id shop`.
    """
    from logstate.changelog.cuts.latest_cut import newest_cut
    from logstate.changelog.cuts.named_cuts import find_cut

    config = {"bootstrap.servers": bootstrap, **client_settings(command_config)}
    if name == "latest-commit":
        print_text(newest_cut(config, application_id))
        return
    _show(find_cut(config, application_id, name), as_json=as_json)


@app.command("delete")
def delete(
    application_id: ApplicationId,
    name: Name,
    bootstrap: Bootstrap,
    command_config: CommandConfig = None,
) -> None:
    """Delete a cut and its copies.

    Example: `logstate cut delete noon --application-id shop`.
    """
    from logstate.changelog.cuts.named_cuts import delete_cut

    delete_cut(bootstrap, application_id, name, kafka=client_settings(command_config))
    print_text(f"cut {name} of {application_id} is deleted")


def seconds(number: float) -> datetime.timedelta:
    """Return so many seconds; raises ConfigError if a timedelta cannot hold them."""
    try:
        return datetime.timedelta(seconds=number)
    except (OverflowError, ValueError):
        raise ConfigError(
            f"--timeout {number}: write a number of seconds, as 30, of a year at most"
        ) from None


def duration(text: str) -> datetime.timedelta:
    """Parse a number with its unit.

    >>> duration("36h")
    datetime.timedelta(days=1, seconds=43200)
    """
    found = re.fullmatch(r"(\d+)([mhd])", text)
    if found is None:
        raise ConfigError(f"--keep {text!r}: write a number and its unit, as 30d, 12h or 45m")
    try:
        return datetime.timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError:
        raise ConfigError(
            f"--keep {text!r} is longer than 36500d: leave it out to keep the cut until it is"
            " deleted"
        ) from None


def _show(found: NamedCut, *, as_json: bool) -> None:
    from rich.table import Table

    if as_json:
        print_json(json.loads(found.to_json()))
        return
    print_text(f"{found.name}, taken {date_of(found.cut.taken_at_ms)}, kept until {_until(found)}")
    table = Table("store", "partition", "changelog up to", "records kept")
    for name, kept in found.stores.items():
        positions = found.cut.positions.get(kept.entry.get("changelog_topic", ""), {})
        for partition, end in kept.ends.items():
            position = positions.get(partition)
            shown = "" if position is None else f"{position:,}"
            table.add_row(name, str(partition), shown, f"{end:,}")
    print_table(table)


def _table(cuts: list[NamedCut], incomplete: list[str]) -> Table:
    from rich.table import Table

    table = Table("cut", "taken", "kept until", "stores", "records")
    for one in cuts:
        taken, stores = date_of(one.cut.taken_at_ms), ", ".join(one.stores)
        table.add_row(one.name, taken, _until(one), stores, f"{one.records:,}")
    for name in incomplete:
        table.add_row(name, "", "being made, or incomplete", "", "")
    return table


def _as_json(found: NamedCut) -> dict[str, Any]:
    return {
        "name": found.name,
        "taken_at_ms": found.cut.taken_at_ms,
        "created_at_ms": found.created_at_ms,
        "expires_at_ms": found.expires_at_ms,
        "stores": list(found.stores),
        "records": found.records,
    }


def _until(found: NamedCut) -> str:
    if found.expires_at_ms is None:
        return "it is deleted"
    over = " (over)" if found.is_expired(int(time.time() * 1000)) else ""
    return date_of(found.expires_at_ms) + over
