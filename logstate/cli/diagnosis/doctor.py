"""``logstate doctor``: find what would stop an application on this machine, and the remedy."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logstate.cli.shared.options import APPLICATION, BOOTSTRAP, CommandConfig, Json
from logstate.cli.shared.printing import print_json, print_table
from logstate.cli.shared.stored_state import client_settings
from logstate.contracts.errors import BrokerError, ConfigError

if TYPE_CHECKING:
    from logstate.cli.diagnosis.findings import Finding

#: packages that every application needs, with their minimum versions
_NEEDED = {
    "confluent-kafka": (2, 14),
    "mmh3": (5,),
    "msgspec": (0, 20),
    "rocksdict": (0, 3, 29),
    "sortedcontainers": (2, 4),
}
#: optional packages, what they are for, and the extra that installs them
_WANTED = {
    "pyspark": ("stores as Spark tables need it", "logstate[spark]"),
    "fastavro": ("Avro needs it", "logstate[avro]"),
    "protobuf": ("Protobuf needs it", "logstate[protobuf]"),
    "datasketches": ("Quantile and ApproxCountDistinct need it", "logstate[sketches]"),
    "uvicorn": ("queries over HTTP need it", "logstate[http]"),
}


def doctor(
    area: Annotated[
        str | None, typer.Argument(metavar="[spark]", help="spark: check what Spark needs, too.")
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(envvar=BOOTSTRAP, help="host:port,... of brokers to check, too."),
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option(help="State directory to check, too; it need not exist.")
    ] = None,
    application_id: Annotated[
        str | None,
        typer.Option(
            envvar=APPLICATION, help="With spark: id of the application whose keys to check."
        ),
    ] = None,
    write: Annotated[
        bool,
        typer.Option("--write", help="Compare clocks: creates a topic, and deletes it again."),
    ] = False,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Check for what would stop an application: packages, limits, disk, brokers, permissions.

    Example: `logstate doctor --bootstrap broker-1:9092 --state-dir /var/lib/shop`. Each finding has
    a remedy. Ends with status 1 if something would stop an application; warnings and notes do not
    count. Changes nothing without --write.
    """
    from rich.table import Table

    from logstate.cli.diagnosis.doctor_spark import placed_keys, spark_facts
    from logstate.cli.diagnosis.findings import Level

    if area not in (None, "spark"):
        raise ConfigError(f"logstate doctor {area!r}: unknown area; use `logstate doctor spark`")
    found = [*_packages(), *_machine(state_dir)]
    if area is not None:
        found += spark_facts()
    if bootstrap is not None:
        settings = {"bootstrap.servers": bootstrap, **client_settings(command_config)}
        found += _brokers(settings, write=write)
        if area is not None and application_id is not None:
            found += placed_keys(settings, application_id)
    if as_json:
        print_json({"findings": [{**one._asdict(), "level": one.level.value} for one in found]})
    else:
        table = Table("", "what", "found", "what to do")
        for one in found:
            table.add_row(one.level.value, one.subject, one.found, one.advice)
        print_table(table)
    raise typer.Exit(1 if any(one.level is Level.PROBLEM for one in found) else 0)


def _packages() -> Iterator[Finding]:
    from logstate.cli.diagnosis import findings
    from logstate.cli.diagnosis.findings import Finding, Level
    from logstate.kafka.extension import extension_state
    from logstate.local_broker.java import find_java

    yield Finding("python", Level.OK, sys.version.split()[0])
    yield Finding("logstate", Level.OK, version("logstate"))
    for name, least in _NEEDED.items():
        try:
            yield findings.old_version(name, version(name), least)
        except PackageNotFoundError:
            yield findings.missing_package(name, "nothing runs without", "logstate", is_needed=True)
    for name, (needed_for, extra) in _WANTED.items():
        try:
            yield Finding(name, Level.OK, version(name))
        except PackageNotFoundError:
            yield findings.missing_package(name, needed_for, extra, is_needed=False)
    yield findings.extension_module(*extension_state())
    try:
        java = find_java()
    except ConfigError as error:
        yield Finding("java", Level.NOTE, str(error), "only the local broker and Spark need one")
    else:
        yield Finding("java", Level.OK, f"{java.major}, {java.executable} ({java.origin})")


def _machine(state_dir: Path | None) -> Iterator[Finding]:
    from logstate.cli.diagnosis import findings
    from logstate.cli.diagnosis.findings import Finding, Level

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield findings.open_files(None if soft == resource.RLIM_INFINITY else soft)
    if state_dir is None:
        return
    place = _nearest_existing(state_dir)
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"\0")
    except OSError as error:
        yield findings.unwritable(str(place), error.strerror or str(error))
    else:
        yield Finding("state directory", Level.OK, f"{place} can be written")
    if not place.exists():
        return  # a broken link, such as to a volume that is not mounted
    yield findings.disk(str(place), shutil.disk_usage(place).free)


def _nearest_existing(path: Path) -> Path:
    """Return the directory, or its nearest existing parent."""
    path = path.absolute()
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    return path


def _brokers(settings: Mapping[str, str], *, write: bool) -> Iterator[Finding]:
    from logstate.cli.diagnosis import findings
    from logstate.cli.diagnosis.findings import Finding, Level
    from logstate.kafka.broker_facts import broker_facts, clock_skew

    try:
        yield from findings.brokers(broker_facts(settings))
    except BrokerError as error:
        yield findings.unreachable(str(error))
        return
    if not write:
        yield Finding("clock", Level.NOTE, "not compared", "--write compares it with the broker's")
        return
    try:
        yield findings.clock(clock_skew(settings))
    except BrokerError as error:
        yield Finding("clock", Level.NOTE, f"not compared: {error}")
