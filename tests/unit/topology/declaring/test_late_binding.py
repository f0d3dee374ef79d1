"""A function whose variable changes between its declaration and build() is refused by name."""

# ruff: noqa: B023, PLW0108  (what the linter warns of is what these tests are about)
from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from logstate import (
    Application,
    JoinWindows,
    Processor,
    Serde,
    SessionWindows,
    StreamsBuilder,
    TopologyError,
    TopologyTestDriver,
    ValueTransformer,
)
from logstate.testing import FakeCluster

SECOND = timedelta(seconds=1)
GAP = SessionWindows(gap=SECOND)
NEAR = JoinWindows(after=SECOND)


#: operator -> what a loop over ``c`` does
STATEMENTS: dict[str, str] = {
    "filter": "s.filter(lambda v: v == c)",
    "filter_not": "s.filter_not(lambda k, v: v == c)",
    "branch": "s.split(name=f'b-{c}').branch(lambda v: v == c, name='x').no_default_branch()",
    "map_values": "s.map_values(lambda v: v + c, value=str)",
    "map": "s.map(lambda k, v: (k, v + c), key=str, value=str)",
    "flat_map_values": "s.flat_map_values(lambda v: [v, c], value=str)",
    "select_key": "s.select_key(lambda v: c, key=str)",
    "peek": "s.peek(lambda v: print(c))",
    "foreach": "s.foreach(lambda v: print(c))",
    "topic chooser": "s.to(lambda k, v: f'out-{c}')",
    "partitioner": "s.to(f'out-{c}', partitioner=lambda topic, k, v, n: len(c) % n)",
    "group_by": "s.group_by(lambda v: v + c, key=str, name=f'by-{c}').count(store=f'n-{c}')",
    "reducer": "s.group_by_key().reduce(lambda a, v: a + c, store=f'r-{c}')",
    "aggregator": "s.group_by_key().aggregate(str, lambda a, v: a + c, store=f'a-{c}', value=str)",
    "initializer": (
        "s.group_by_key().aggregate(lambda: c, lambda a, v: a, store=f'a-{c}', value=str)"
    ),
    "session merger": (
        "s.group_by_key().windowed_by(GAP).aggregate("
        "str, lambda a, v: a, lambda a, b: a + c, store=f'a-{c}', value=str)"
    ),
    "stream join": "s.join(s, lambda a, b: a + c, windows=NEAR, name=f'j-{c}', value=str)",
    "stream-table join": "s.join(t, lambda a, b: a + c, value=str)",
    "key mapper": "s.join(g, lambda a, b: a, key_mapper=lambda k, v: c, value=str)",
    "table join": "t.join(other, lambda a, b: a + c, value=str)",
    "foreign key": (
        "t.join(other, lambda a, b: a, foreign_key=lambda v: c, name=f'f-{c}', store=f'f-{c}',"
        " value=str)"
    ),
    "table filter": "t.filter(lambda v: v == c)",
    "table map_values": "t.map_values(lambda v: v + c, value=str)",
    "table group_by": (
        "t.group_by(lambda k, v: (c, v), key=str, value=str, name=f'g-{c}').count(store=f'n-{c}')"
    ),
    "deduplicate": "s.deduplicate_by_key_value(lambda v: c, SECOND, store=f'd-{c}', id=str)",
    "timestamp extractor": (
        "b.stream(f'in-{c}', value=str, timestamp_extractor=lambda k, v, at, before: at + len(c))"
    ),
    "supplier": "s.process(lambda: Adding(c), key=str, value=str)",
    "class of processors": (
        "class Local(Processor):\n"
        "            def process(self, record):\n"
        "                self.context.forward(record._replace(value=c))\n"
        "        s.process(Local, key=str, value=str)"
    ),
    "transformer": "t.transform_values(lambda: Suffix(c), value=str)",
    "partial": "s.filter(functools.partial(lambda wanted, v: v == c, 1))",
    "helper": (
        "def is_wanted(v):\n            return v == c\n        s.filter(lambda v: is_wanted(v))"
    ),
    "serde": (
        "class OfLoop(Serde):\n"
        "            def serializer(self, topic, is_key):\n"
        "                return lambda value: (value + c).encode()\n"
        "            def deserializer(self, topic, is_key):\n"
        "                return bytes.decode\n"
        "            def describe(self):\n"
        "                return {'format': 'of-loop', 'schema': None}\n"
        "        s.map_values(lambda v: v, value=OfLoop()).to(f'out-{c}')"
    ),
    "method": "s.filter(Rule(lambda v: v == c).matches)",
}


class Adding(Processor[str, str, str, str]):
    def __init__(self, text: str) -> None:
        self.text = text


class Suffix(ValueTransformer[str, str, str]):
    def __init__(self, text: str) -> None:
        self.text = text


class Rule:
    def __init__(self, function: Callable[[str], bool]) -> None:
        self.function = function

    def matches(self, value: str) -> bool:
        return self.function(value)


def run_as_module(text: str) -> dict[str, Any]:
    """The globals of a module of this text."""
    scope: dict[str, Any] = {**globals(), "Serde": Serde, "__name__": "a_module"}
    exec(compile(text, "a_module.py", "exec"), scope)
    return scope


@pytest.mark.parametrize("operator", STATEMENTS)
def test_a_function_of_a_loop_that_reads_the_loop_s_variable_is_refused(operator: str) -> None:
    module = run_as_module(
        "b = StreamsBuilder()\n"
        "def declare():\n"
        "    s = b.stream('in', value=str)\n"
        "    t = b.table('table', value=str, store='t')\n"
        "    other = b.table('other', value=str, store='o')\n"
        "    g = b.global_table('global', value=str, store='g')\n"
        "    for c in ('a', 'b'):\n"
        f"        {STATEMENTS[operator]}\n"
        "declare()\n"
    )
    with pytest.raises(TopologyError) as caught:
        module["b"].build()
    assert re.search(
        r"a_module\.py:\d+ reads the variable '(c|is_wanted)', which was .* at build\(\)",
        str(caught.value),
    ), caught.value
    assert "Bind it: `" in str(caught.value)


def test_the_message_has_place_values_and_the_function_with_its_variable_bound() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    for country in ("de", "no"):
        stream.filter(lambda k, v: v == country).to(country)
    wanted = (
        r"The predicate test_the_message\S+<lambda> at .*test_late_binding\.py:\d+ reads the"
        r" variable 'country', which was 'de' when the predicate was declared and is 'no' at"
        r" build\(\).*`lambda k, v, country=country: …`.*\(declared at .*test_late_binding\.py:\d+"
    )
    with pytest.raises(TopologyError, match=wanted):
        builder.build()


def test_a_def_is_told_as_one() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    for country in ("de", "no"):

        def is_from(value: str) -> bool:
            return value == country

        stream.filter(is_from).to(country)
    with pytest.raises(TopologyError, match=r"`def is_from\(value, country=country\): …`"):
        builder.build()


def test_a_comprehension_is_a_loop() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    [stream.filter(lambda v: v == c).to(c) for c in ("a", "b")]
    with pytest.raises(TopologyError, match="variable 'c'"):
        builder.build()


def test_so_are_while_and_a_variable_that_is_assigned_once_more() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=int)
    n = 0
    while n < 2:
        stream.filter(lambda v: v == n).to(f"out-{n}")
        n += 1
    with pytest.raises(TopologyError, match=r"variable 'n', which was 0 .* and is 2"):
        builder.build()


def test_a_group_of_a_cogroup_that_a_loop_adds_is_refused() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str).group_by_key()
    cogrouped = stream.cogroup(lambda a, v: a + v)
    for c in ("a", "b"):
        more = builder.stream(f"in-{c}", value=str).group_by_key()
        cogrouped = cogrouped.cogroup(more, lambda a, v: a + c)
    cogrouped.aggregate(str, store="sum", value=str)
    with pytest.raises(TopologyError, match="variable 'c'"):
        builder.build()


def test_one_function_that_is_declared_in_each_round_is_refused() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    c = ""

    def is_c(value: str) -> bool:
        return value == c

    for c in ("a", "b"):
        stream.filter(is_c).to(f"out-{c}")
    with pytest.raises(TopologyError, match="variable 'c', which was 'a'"):
        builder.build()


# --- globals --------------------------------------------------------------------------------------


BEGIN = "b = StreamsBuilder()\ns = b.stream('in', value=str)\n"


@pytest.mark.parametrize(
    "text",
    [
        "for c in ('a', 'b'):\n    s.filter(lambda v: v == c).to(c)\n",
        "for n, c in enumerate(('a', 'b')):\n    s.filter(lambda v: v == c).to(c)\n",
        "n, c = 0, 'a'\nwhile n < 2:\n    s.filter(lambda v: v == c)\n    n, c = n + 1, 'b'\n",
        "c = 'a'\ns.filter(lambda v: v == c)\nc = 'b'\ns.filter(lambda v: v == c)\n",
        "def f(v):\n    return v == c\nfor c in ('a', 'b'):\n    s.filter(f)\n",
        "def f(v):\n    return v == c\nfor c in ('a', 'b'):\n    s.filter(lambda v: f(v))\n",
        "def declare():\n    s.filter(lambda v: v == c)\nfor c in ('a', 'b'):\n    declare()\n",
        "def f():\n    global c\n    for c in 'ab':\n        s.filter(lambda v: v == c)\nf()\n",
        "for c in ('a', 'b'):\n    s.filter(lambda v: any(c == x for x in v))\n",
    ],
)
def test_a_global_that_the_declaring_code_assigns_afterwards_is_refused(text: str) -> None:
    module = run_as_module(BEGIN + text)
    with pytest.raises(TopologyError, match=r"reads the variable 'c', which was 'a' .* is 'b'"):
        module["b"].build()


@pytest.mark.parametrize(
    "text",
    [
        # A setting that is read late, on purpose.
        "c = 1\ns.filter(lambda v: v == c)\ndef main():\n    global c\n    c = 2\nmain()\n",
        # A function and a constant that are defined further down.
        "s.filter(lambda v: f(v) == C)\ndef f(v):\n    return v\nC = 1\n",
        # The same value again.
        "c = 1\ns.filter(lambda v: v == c)\nc = 1\n",
        # A counter of its own.
        "c = 0\ndef f(v):\n    global c\n    c += 1\n    return c\ns.filter(f)\nc += 1\n",
        # A loop's variable that is bound, and one that is not read.
        "for c in ('a', 'b'):\n    s.filter(lambda v, c=c: v == c).to(c)\n",
        "for c in ('a', 'b'):\n    s.filter(lambda v: v == 'x').to(c)\n",
        # An object that changes and stays the same object.
        "seen = []\nfor c in ('a', 'b'):\n    s.foreach(lambda v: seen.append(v))\n    seen += c\n",
        # An attribute and a local variable of that name.
        "for c in ('a', 'b'):\n    s.map_values(lambda v: v.c, value=str)\n",
        "def f(v):\n    c = v\n    return c\nfor c in ('a', 'b'):\n    s.map_values(f)\n",
        # The stream's own name.
        "for c in ('a', 'b'):\n    s = s.filter(lambda v: v != 'x')\n",
    ],
)
def test_other_globals_may_change(text: str) -> None:
    run_as_module(BEGIN + text)["b"].build()


# --- what is allowed ------------------------------------------------------------------------------


def test_a_default_argument_binds_the_value() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    for c in ("a", "b"):
        stream.filter(lambda v, c=c: v == c).to(f"out-{c}")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("1", "a", 0), ("2", "b", 1)])
        assert [record.topic for record in driver.outputs] == ["out-a", "out-b"]


def test_so_does_a_function_that_makes_the_function() -> None:
    def is_from(c: str) -> Callable[[str], bool]:
        return lambda v: v == c

    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    for c in ("a", "b"):
        stream.filter(is_from(c)).to(f"out-{c}")
        stream.filter(functools.partial(str.__eq__, c)).to(f"also-{c}")
    builder.build()


def test_a_mutable_object_may_change_its_contents() -> None:
    seen: list[str] = []
    totals = {"n": 0}
    ids: Iterator[int] = itertools.count()
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    for c in ("a", "b"):
        stream.foreach(lambda v: seen.append(v))
        stream.foreach(lambda v: totals.update(n=totals["n"] + 1))
        stream.map_values(lambda v: f"{v}{next(ids)}", value=str).to(c)
        seen.append(c)
        totals["n"] += 1
    builder.build()


def test_a_counter_may_count() -> None:
    calls = 0

    def count(value: str) -> bool:
        nonlocal calls
        calls += 1
        return True

    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    for c in ("a", "b"):
        count(c)
        stream.filter(count).to(c)
    builder.build()


def test_a_recursive_function_and_one_that_is_defined_later_may_be_read() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=int)

    def factorial(n: int) -> int:
        return 1 if n < 2 else n * factorial(n - 1)

    def is_even(n: int) -> bool:
        return n == 0 or is_odd(n - 1)

    stream.map_values(factorial, value=int)
    stream.filter(is_even)

    def is_odd(n: int) -> bool:
        return n != 0 and is_even(n - 1)

    builder.build()


def test_a_variable_that_changes_after_build_is_not_looked_at() -> None:
    driver: TopologyTestDriver | None = None
    builder = StreamsBuilder()
    builder.stream("in", value=str).foreach(lambda v: print(driver))
    driver = TopologyTestDriver(builder.build())
    driver.close()


def test_one_builder_per_round_is_built_with_the_value_of_its_round() -> None:
    for c in ("a", "b"):
        builder = StreamsBuilder()
        builder.stream("in", value=str).filter(lambda v: v == c).to("out")
        with TopologyTestDriver(builder.build()) as driver:
            driver.pipe_all("in", [("1", "a", 0), ("2", "b", 1)])
            assert driver.read("out", value=str) == [("1" if c == "a" else "2", c)]


def test_a_function_is_compared_with_its_own_builder_s_declaration() -> None:
    limit = 1

    def is_small(value: int) -> bool:
        return value < limit

    StreamsBuilder().stream("in", value=int).filter(is_small)  # never built
    limit = 2
    builder = StreamsBuilder()
    builder.stream("in", value=int).filter(is_small)
    builder.build()


def test_an_application_is_never_made_of_it(tmp_path: Any) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    for c in ("a", "b"):
        stream.filter(lambda v: v == c).to("out")
    with pytest.raises(TopologyError, match="Bind it"):
        Application(
            builder.build(),
            application_id="app",
            bootstrap="fake:9092",
            state_dir=tmp_path,
            cluster=FakeCluster({"in": 1, "out": 1}),
        )
