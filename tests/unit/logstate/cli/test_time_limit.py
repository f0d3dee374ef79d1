"""A broker that accepts connections and never answers: every command ends within its time-out."""

from __future__ import annotations

import inspect
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
REST = {
    "topics create": ("orders_of_shop:builder",),
    "tail": ("orders",),
    "produce": ("orders", "o-1", "1"),
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
@pytest.mark.parametrize("name", ["status", "topics create", "tail", "produce", "cut list"])
def test_a_command_ends_within_its_timeout_with_the_address(
    name: str, silent: str, tmp_path: Path
) -> None:
    (tmp_path / "orders_of_shop.py").write_text(
        "from logstate import StreamsBuilder\n"
        "builder = StreamsBuilder()\n"
        "builder.stream('orders', key=str, value=str).group_by_key().count(store='spent')\n"
    )
    place = ["--bootstrap", silent, "--application-id", "shop", "--timeout", "1"]
    answer = subprocess.run(
        [sys.executable, "-m", "logstate", *name.split(), *REST.get(name, ()), *place],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=PATIENCE_S,
    )
    assert answer.returncode == 1
    assert answer.stderr.startswith(f"logstate: {name} has not ended within 1 s (--timeout).")
    assert silent in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
