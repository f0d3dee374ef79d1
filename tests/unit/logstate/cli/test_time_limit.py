"""A broker that accepts connections and never answers: every command ends within its time-out."""

from __future__ import annotations

import inspect
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from logstate.cli.main import COMMANDS
from logstate.cli.shared.time_limit import limited
from tests.patience import PATIENCE_S

#: the other words of a command that needs some
_TOPOLOGY = "orders_of_shop:builder"
REST = {
    "topics create": (_TOPOLOGY,),
    "cut create": ("noon",),
    "cut show": ("noon",),
    "cut delete": ("noon",),
    "plan": (_TOPOLOGY,),
    "get": ("spent", "ada"),
    "tail": ("orders",),
    "produce": ("orders", "o-1", "1"),
    "consume": ("orders",),
    "export": ("spent", "--to", "spent.parquet"),
    "replay": (_TOPOLOGY, "--task", "0_0"),
    "bench": (_TOPOLOGY,),
    "reset": ("--yes",),
    "reshard": (_TOPOLOGY, "--partitions", "4"),
}


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def with_brokers() -> dict[str, set[str]]:
    """The commands that have ``--bootstrap``, with their parameters."""
    found = {}
    for name, one in COMMANDS.items():
        loaded = one.loaded()
        each = (
            {f"{name} {info.name}": info.callback for info in loaded.registered_commands}
            if isinstance(loaded, typer.Typer)
            else {name: loaded}
        )
        for full, function in each.items():
            parameters = inspect.signature(limited(full, function, one.timeout_s)).parameters
            if "bootstrap" in parameters:
                found[full] = set(parameters)
    return found


def test_every_command_with_brokers_has_a_timeout() -> None:
    found = with_brokers()
    assert {"status", "topics create", "cut list", "consume"} <= found.keys()
    without = {name for name, parameters in found.items() if "timeout" not in parameters}
    assert without == {"run", "acls"}


@pytest.mark.slow
def test_every_command_ends_within_its_timeout_with_the_address(
    silent: str, tmp_path: Path
) -> None:
    (tmp_path / "orders_of_shop.py").write_text(
        "from logstate import StreamsBuilder\n"
        "builder = StreamsBuilder()\n"
        "builder.stream('orders', key=str, value=str).group_by_key().count(store='spent')\n"
    )
    defaults = {"LOGSTATE_BOOTSTRAP": silent, "LOGSTATE_APPLICATION": "shop"}
    running = {}
    for name in sorted(with_brokers().keys() - {"run", "acls"}):
        # Only with --bootstrap does `bench` use brokers.
        place = ["--bootstrap", silent] if name == "bench" else []
        words = [*name.split(), *REST.get(name, ()), *place, "--timeout", "1"]
        running[name] = subprocess.Popen(
            [sys.executable, "-m", "logstate", *words],
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, **defaults},
        )
    for name, process in running.items():
        _, told = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1
        assert told.startswith(f"logstate: {name} has not ended within 1 s (--timeout).")
        assert silent in told
        assert len(told.splitlines()) == 1
