"""What travels to a worker process, and what is said where it cannot."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from logstate.app.instance import by_value
from logstate.app.instance.by_value import dumps, loads
from logstate.contracts.errors import ConfigError
from logstate.topology import StreamsBuilder, Topology
from tests.patience import PATIENCE_S
from tests.unit.logstate.flows import counted
from tests.unit.logstate.task.task_bench import topology_of

SCRIPT = """
import dataclasses, sys, msgspec
from datetime import timedelta
from logstate import StreamsBuilder, TumblingWindows
from logstate.app.instance.by_value import dumps

class Click(msgspec.Struct, frozen=True):
    user: str
    n: int

@dataclasses.dataclass(frozen=True)
class Spent:
    n: int

def doubled(click: Click) -> Spent:
    return Spent(2 * click.n)

builder = StreamsBuilder()
clicks = builder.stream("clicks", key=str, value=Click).filter(lambda click: click.n > 0)
spent = clicks.map_values(doubled, value=Spent)
spent.group_by_key().reduce(lambda old, new: Spent(old.n + new.n), store="spent")
windows = TumblingWindows(size=timedelta(minutes=1), grace=timedelta(0))
spent.group_by_key().windowed_by(windows).count(store="counts").to_stream().to("out")
sys.stdout.buffer.write(dumps(builder.build()))
"""


CLASSES = """
from __future__ import annotations
import dataclasses, sys, msgspec
from typing import Generic, TypeVar
from logstate.app.instance.by_value import dumps

T = TypeVar("T")

class Item(msgspec.Struct, frozen=True, rename="camel"):
    item_name: str
    price: float = 1.5
    tags: list[str] = []
    def doubled(self) -> Item:
        return Item(self.item_name, 2 * self.price)

class Gift(Item, frozen=True, tag="gift", tag_field="kind", forbid_unknown_fields=True):
    inside: list["Item"] = msgspec.field(default_factory=lambda: [Item("nothing")])
    parent: Gift | None = None
    def __post_init__(self) -> None:
        if self.price < 0:
            raise ValueError("a negative price")

class Named(msgspec.Struct, kw_only=True, omit_defaults=True):
    note: str = ""
    count: int

class Box(msgspec.Struct, Generic[T]):
    value: T

@dataclasses.dataclass
class Order:
    items: list[Item]
    box: Box[Gift] | None = None

def tried() -> list[object]:
    order = b'{"items":[{"itemName":"a"}],"box":{"value":{"kind":"gift","itemName":"g"}}}'
    decoded = msgspec.json.decode(order, type=Order)
    found = [repr(decoded), msgspec.json.encode(decoded), repr(Item("x").doubled())]
    found += [msgspec.json.encode(Named(count=3)), Item("x") == Item("x"), hash(Gift) == hash(Gift)]
    for wrong in (b'{"kind":"gift","itemName":"g","price":-1}', b'{"kind":"gift","no":1}'):
        try:
            msgspec.json.decode(wrong, type=Gift)
        except msgspec.ValidationError as error:
            found.append(str(error))
    return found

sys.stdout.buffer.write(dumps([tried(), tried]))
"""


@dataclasses.dataclass(frozen=True)
class Click:
    user: str


@pytest.mark.parametrize("kind", [str, int, bytes, float, dict, Click])
def test_a_topology_travels_with_its_serdes(kind: Any) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=kind).filter(lambda _: True)
    stream.group_by_key().count(store="counts").to_stream().to("out")
    again = loads(dumps(builder.build()))
    assert isinstance(again, Topology)
    assert again.stores["counts"].key.serializer("topic", True)("ada") == b"ada"


def test_what_a_script_defines_travels_by_value(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, str(script)], capture_output=True, check=True, timeout=PATIENCE_S
    )
    topology = loads(ran.stdout)
    spent = topology.stores["spent"].value
    value = spent.deserializer("topic", False)(b'{"n": 4}')
    assert (type(value).__name__, value.n) == ("Spent", 4)
    again = loads(dumps(value))
    assert type(again) is type(value), "a class that has travelled is one class on the way back"


def test_classes_of_a_script_are_the_same_in_the_other_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(CLASSES)
    ran = subprocess.run(
        [sys.executable, str(script)], capture_output=True, check=True, timeout=PATIENCE_S
    )
    there = (
        "import sys; from logstate.app.instance.by_value import loads;"
        " expected, tried = loads(sys.stdin.buffer.read()); found = tried();"
        " assert found == expected, (found, expected); print(len(found))"
    )
    again = subprocess.run(
        [sys.executable, "-c", there],
        input=ran.stdout,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (again.stdout, again.stderr) == (b"8\n", b"")


def test_functions_of_modules_travel_as_their_names() -> None:
    assert loads(dumps(counted)) is counted


def test_what_cannot_travel_is_an_error_that_says_what_to_do() -> None:
    lock = threading.Lock()

    def declare(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).filter(lambda _: lock.locked()).to("out")

    with pytest.raises(ConfigError, match=r"cannot pickle.*lock.*'module:attribute'"):
        dumps(topology_of(declare))


def test_without_the_library_a_lambda_is_refused_by_name_and_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(by_value, "cloudpickle", None)
    with pytest.raises(ConfigError) as caught:
        dumps({"handler": lambda _: True})
    for part in ("<lambda> at ", "test_by_value.py:", "'logstate[workers]'", "cloudpickle"):
        assert part in str(caught.value)


def test_without_the_library_names_still_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_value, "cloudpickle", None)
    assert loads(dumps([counted, Click("ada"), msgspec.json.Decoder(int)]))[:2] == [
        counted,
        Click("ada"),
    ]
