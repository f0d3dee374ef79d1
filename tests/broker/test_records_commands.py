"""``logstate topics create --with-inputs``, ``produce``, ``consume`` and ``tail`` on a broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from logstate import Application
from logstate.cli.main import app as command
from logstate.topology.dsl.topology_target import load_topology
from tests.patience import PATIENCE_S

MODULE = """
import msgspec
from logstate import StreamsBuilder

class Order(msgspec.Struct):
    customer: str
    cents: int = 0

builder = StreamsBuilder()
orders = builder.stream("PREFIX-orders", key=str, value=Order)
orders.join(
    builder.table("PREFIX-names", key=str, value=str, store="names"),
    lambda order, name: name,
    value=str,
).to("PREFIX-named")
spent = orders.group_by(lambda order: order.customer, key=str, name="by-customer").aggregate(
    int, lambda cents, order: cents + order.cents, store="spent", value=int
)
spent.to_stream().to("PREFIX-spent", value=int)
topology = builder.build()
"""


class Shop:
    """A topology in a module, and the command with its application and broker as defaults."""

    def __init__(self, bootstrap: str, prefix: str, path: Path) -> None:
        self.bootstrap, self.prefix, self.path = bootstrap, prefix, path
        self.target = f"{prefix.replace('-', '_')}:topology"
        (path / f"{prefix.replace('-', '_')}.py").write_text(
            MODULE.replace("PREFIX", prefix), encoding="utf-8"
        )

    def call(self, *arguments: str, status: int = 0) -> Result:
        environment = {"LOGSTATE_BOOTSTRAP": self.bootstrap, "LOGSTATE_APPLICATION": self.prefix}
        answer = CliRunner().invoke(command, arguments, env=environment)
        found = 1 if answer.exception and answer.exit_code == 1 else answer.exit_code
        assert found == status, (answer.output, answer.exception)
        return answer

    def refused(self, *arguments: str) -> str:
        answer = self.call(*arguments, status=1)
        return answer.stderr if isinstance(answer.exception, SystemExit) else str(answer.exception)

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        answer = self.call("consume", *arguments, "--timeout", str(PATIENCE_S))
        return [json.loads(line) for line in answer.stdout.splitlines()]


@pytest.fixture
def shop(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Shop:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return Shop(bootstrap, unique("shop"), tmp_path)


def test_a_topology_is_fed_and_its_outputs_are_read_from_the_command_line(shop: Shop) -> None:
    orders, spent, names = (f"{shop.prefix}-{name}" for name in ("orders", "spent", "names"))
    create = ("topics", "create", shop.target, "--with-inputs", "--partitions", "2", "--json")
    planned = json.loads(shop.call(*create, "--dry-run").stdout)["topics"]
    assert not any(one["exists"] or one["is_created"] for one in planned)
    assert {one["partitions"] for one in planned if one["name"] != f"{shop.prefix}-cuts"} == {2}
    made = json.loads(shop.call(*create).stdout)["topics"]
    assert {one["name"] for one in made} == {one["name"] for one in planned} >= {orders, spent}
    assert all(one["is_created"] for one in made)
    assert "does not exist" in shop.refused("produce", "elsewhere", "k", "v")

    here = ("--topology", shop.target)
    shop.call("produce", orders, "o-1", '{"customer": "ada", "cents": 250}', *here)
    shop.call("produce", names, "-1", "minus one", *here)
    said = shop.refused("produce", spent, "ada", "many", *here)
    assert "is not a valid value of topic" in said
    assert "neither reads nor writes topic" in shop.refused(
        "produce", f"{shop.prefix}-cuts", "k", "v", *here
    )
    (shop.path / "bad.jsonl").write_text('{"key": "o", "value": null}\n{"key": 7, "value": 1}\n')
    bad = shop.refused("produce", orders, "--file", str(shop.path / "bad.jsonl"), *here)
    assert "line 2: '7' is not a valid key" in bad
    assert "Nothing was written" in bad
    good = (
        '{"key": "o-2", "value": {"customer": "ada", "cents": 50}, "timestamp": 7, "partition": 1}'
    )
    (shop.path / "good.jsonl").write_text(f"\n{good}\n")
    shop.call("produce", orders, "--file", str(shop.path / "good.jsonl"), *here)
    found = shop.lines(orders, "--from-beginning", "--max", "2", *here)
    assert {(one["key"], one["value"]["cents"]) for one in found} == {("o-1", 250), ("o-2", 50)}
    assert {(one["timestamp"], one["partition"]) for one in found} >= {(7, 1)}

    with Application(
        load_topology(shop.target),
        application_id=shop.prefix,
        bootstrap=shop.bootstrap,
        state_dir=shop.path / "state",
    ) as app:
        app.wait_until_caught_up()
        shop.call("produce", orders, "o-3", '{"customer": "bob", "cents": 9}')  # by the manifest
        app.wait_until_caught_up()
    decoded = shop.lines(spent, "--from-beginning", "--max", "3")
    assert {one["key"]: one["value"] for one in decoded} == {"ada": 300, "bob": 9}
    assert {one["value_format"] for one in decoded} == {"int64"}
    tailed = [json.loads(line) for line in shop.call("tail", spent, "--json").stdout.splitlines()]
    assert [(one["key"], one["value"]) for one in tailed][-1] == ("bob", 9)
    assert "(guessed" not in shop.call("tail", names).stdout
    ended = shop.call("consume", spent, "--max", "1", "--timeout", "0.5", status=1)
    assert f"0 of 1 records of {spent!r} arrived within 0.5 s" in ended.stderr
    assert shop.call("consume", spent, "--timeout", "0.1").stdout == ""
