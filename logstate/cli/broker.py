"""``logstate broker``: manage brokers on this machine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from logstate.cli.shared.options import Json
from logstate.cli.shared.printing import fail, print_json, print_text

if TYPE_CHECKING:
    from logstate.local_broker.broker import LocalBroker
    from logstate.local_broker.cluster import LocalCluster
    from logstate.local_broker.registry import RunningBroker

app = typer.Typer(help="A real Kafka broker on this machine.", no_args_is_help=True)

Port = Annotated[int | None, typer.Option(help="Loopback port; a free one when not given.")]


@app.command("start")
def start(
    port: Port = None,
    data: Annotated[
        Path | None, typer.Option(help="Directory to keep; a temporary one when not given.")
    ] = None,
    heap: Annotated[str, typer.Option(help="JVM heap of each, as in -Xmx.")] = "512m",
    brokers: Annotated[
        int, typer.Option(help="1, or 3: a cluster with temporary data; one of them may be down.")
    ] = 1,
    user: Annotated[
        list[str] | None,
        typer.Option(help="name:password of a user with ACLs, on a separate listener."),
    ] = None,
    tls: Annotated[
        bool,
        typer.Option("--tls", help="A separate listener with TLS; with --user, the users' one."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a broker in the background and print its address.

    With users there is an authorizer, and the command prints a second address for them (SASL/PLAIN,
    with --tls over TLS), followed by their client settings. Clients of the first address are
    administrators.
    """
    from logstate.local_broker.broker import LocalBroker
    from logstate.local_broker.cluster import NODES, LocalCluster

    users = dict(map(_user_and_password, user or ()))
    broker: LocalBroker | LocalCluster
    if brokers == 1:
        broker = LocalBroker.start(
            port=port, data=data, heap=heap, users=users, tls=tls, detached=True
        )
    elif brokers != NODES or port is not None or data is not None:
        fail(f"--brokers is 1 or {NODES}; with {NODES}, do not give --port or --data")
    else:
        broker = LocalCluster.start(heap=heap, users=users, tls=tls, detached=True)
    names: list[str | None] = [*users] or ([None] if tls else [])
    clients = [broker.client_settings(name) for name in names]
    _print_started(broker.bootstrap, clients, as_json=as_json)


def _print_started(bootstrap: str, clients: list[dict[str, str]], *, as_json: bool) -> None:
    from logstate.local_broker.registry import running_brokers

    if as_json:
        addresses = bootstrap.split(",")
        started = [one for one in running_brokers() if one.bootstrap in addresses]
        secured = {"clients": clients} if clients else {}
        print_json([{**asdict(one), **secured} for one in started])
        return
    print_text(bootstrap)
    for settings in clients:
        print_text()
        print_text("\n".join(f"{name}={value}" for name, value in settings.items()))


def _user_and_password(text: str) -> tuple[str, str]:
    name, _, password = text.partition(":")
    return name, password


@app.command("prepare")
def prepare(as_json: Json = False) -> None:
    """Download the files of a broker, and make later starts take half as long.

    For an image or a CI cache; `start` downloads missing files by itself. Starts and stops a broker
    once, and stores its classes in the JVM's format. Prints the file, and does nothing if it
    exists.
    """
    from logstate.local_broker.class_archive import make_class_archive

    archive = make_class_archive()
    if as_json:
        print_json({"archive": str(archive), "size_bytes": archive.stat().st_size})
    else:
        print_text(archive)


@app.command("stop")
def stop(
    port: Annotated[int | None, typer.Option(help="Which one, if several run.")] = None,
    data: Annotated[Path | None, typer.Option(help="Which one, by its directory.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: Json = False,
) -> None:
    """Stop a broker; temporary data is deleted."""
    from logstate.local_broker.registry import running_brokers, stop_running

    chosen = _matching_brokers(running_brokers(), port, data)
    if not chosen:
        fail("No such local broker is running; `logstate broker status` lists them.")
    if len(chosen) > 1 and not every:
        several = ", ".join(one.bootstrap for one in chosen)
        fail(f"Several brokers are running: {several}. Choose with --port or --data, or --all.")
    for one in chosen:
        stop_running(one)
        if not as_json:
            print_text(f"stopped {one.bootstrap}")
    if as_json:
        print_json([asdict(one) for one in chosen])


@app.command("status")
def status(as_json: Json = False) -> None:
    """List the local brokers; exit status 1 if none is running."""
    from logstate.local_broker.registry import running_brokers

    running = running_brokers()
    if as_json:
        print_json([asdict(one) for one in running])
    for one in [] if as_json else running:
        kept = "temporary" if one.temporary else "kept"
        print_text(f"{one.bootstrap}  pid {one.pid}  {one.data} ({kept})")
    if not running:
        fail("No local broker is running; `logstate broker start` starts one.")


def _matching_brokers(
    running: list[RunningBroker], port: int | None, data: Path | None
) -> list[RunningBroker]:
    directory = None if data is None else str(data.resolve())
    return [
        one
        for one in running
        if (port is None or one.port == port) and (directory is None or one.data == directory)
    ]
