"""``logstate bench`` without a broker; tests/broker has it on one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from logstate.cli.main import app as command
from logstate.cli.main import main

MODULE = """
import re
from datetime import timedelta
import msgspec
from logstate import StreamsBuilder, TumblingWindows

class Order(msgspec.Struct, frozen=True):
    customer: str
    amount: float

def totals():
    builder = StreamsBuilder()
    countries = builder.global_table("countries", key=str, value=str, store="countries")
    customers = builder.table("customers", key=str, value=str, store="customers")
    orders = builder.stream("orders", key=str, value=Order)
    orders.join(customers, lambda order, name: name, value=str).to("named", key=str, value=str)
    by_customer = orders.group_by(lambda _, order: order.customer, key=str, name="by-customer")
    by_customer.count(store="counts").to_stream().to("counts", key=str, value=int)
    windows = TumblingWindows(size=timedelta(seconds=1), grace=timedelta(0))
    orders.group_by_key().windowed_by(windows).count(store="windows", emit="close")
    return builder.build()

def numbers():
    builder = StreamsBuilder()
    builder.stream("texts", key=str, value=str).map_values(int, value=int).to("numbers")
    return builder.build()

def texts():
    while True:
        yield "texts", "ada", "7"

def reads_by_pattern():
    builder = StreamsBuilder()
    builder.stream(re.compile("eu-.*"), key=str, value=int).to("all")
    return builder.build()
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "benched_shop.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["bench", *arguments])


def test_every_record_goes_through_the_whole_topology() -> None:
    answer = bench("benched_shop:totals", "--records", "3000", "--keys", "100", "--json")
    assert answer.exit_code == 0, (answer.output, answer.exception)
    told = json.loads(answer.stdout)
    # One row for each of 100 keys in two tables; that of the global one is there before.
    assert told["records"] == 2_900
    outputs = {name.rpartition("by-")[2]: count for name, count in told["outputs"].items()}
    assert outputs == {"counts": 2_800, "customer-repartition": 2_800, "named": 2_800}
    assert told["records_per_s"] > 0
    assert told["changelog_records"] > 100


def test_people_read_records_a_second() -> None:
    answer = bench("benched_shop:totals", "--records", "500", "--keys", "10")
    assert "records/s" in answer.stdout, (answer.output, answer.exception)
    assert "changes of stores" in answer.stdout


def failing(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["logstate", "bench", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(str(ended.value.code))


def test_a_function_that_expects_more_than_its_type_says_is_told_of_inputs_of_ones_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failing("benched_shop:numbers", monkeypatch=monkeypatch) == 1
    told = capsys.readouterr().err
    assert "generated from the declared types" in told
    assert "--inputs MODULE:FUNCTION" in told
    given = ("--inputs", "benched_shop:texts", "--records", "50", "--json")
    answer = bench("benched_shop:numbers", *given)
    assert json.loads(answer.stdout)["outputs"] == {"numbers": 50}


def test_topics_of_a_pattern_are_given_by_name() -> None:
    answer = bench("benched_shop:reads_by_pattern", "--topic", "eu-1", "--records", "50", "--json")
    assert json.loads(answer.stdout)["outputs"] == {"all": 50}, (answer.output, answer.exception)


def test_one_place_at_a_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    both = ("--broker", "--bootstrap", "127.0.0.1:1")
    assert failing("benched_shop:totals", *both, monkeypatch=monkeypatch) == 1
    assert "leave out --bootstrap" in capsys.readouterr().err
