"""Values of modules that the functions of a topology read, as worker processes compare them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from logstate import StreamsBuilder
from logstate.topology.declaring.module_values import changed_values, module_values

SETTINGS = """
FACTOR = 1
LIMITS = {"de": 1, "fr": [2, 3]}
lock = object()
class Rate:
    value = 1
    class Inner:
        depth = 1
def scaled(v):
    return v * FACTOR
"""
FLOW = """
import os, math
import settings_of_flow as settings
from settings_of_flow import FACTOR, Rate, scaled
CALLS = 0
def own(v): return v * FACTOR
def attribute(v): return v * settings.FACTOR
def container(v): return settings.LIMITS["de"]
def of_class(v): return v * Rate.value
def nested_class(v): return v * settings.Rate.Inner.depth
def called(v): return settings.scaled(v)
def called_by_name(v): return [scaled(one) for one in [v]]
def inner(v): return (lambda: settings.FACTOR)() * v
def assigned(v):
    global CALLS
    CALLS += 1
    return v
def installed(v): return v * math.pi * len(os.sep)
def unplain(v): return settings.lock
def method(v): return v.FACTOR
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], ModuleType]]:
    """Imports the modules as a new process would."""
    names = ("flow_of_values", "settings_of_flow")
    (tmp_path / "flow_of_values.py").write_text(FLOW, encoding="utf-8")
    (tmp_path / "settings_of_flow.py").write_text(SETTINGS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def imported() -> ModuleType:
        for name in names:
            sys.modules.pop(name, None)
        __import__(names[0])
        return sys.modules[names[0]]

    yield imported
    for name in names:
        sys.modules.pop(name, None)


def set_factor(flow: Any) -> None:
    flow.settings.FACTOR = 7


def set_own(flow: Any) -> None:
    flow.FACTOR = 7


def set_rate(flow: Any) -> None:
    flow.Rate.value = 7


def set_depth(flow: Any) -> None:
    flow.settings.Rate.Inner.depth = 7


def set_limit(flow: Any) -> None:
    flow.settings.LIMITS["fr"].append(4)


@pytest.mark.parametrize(
    ("function", "change", "name"),
    [
        ("own", set_own, "flow_of_values.FACTOR, which is 7 in the main process and 1 in"),
        ("attribute", set_factor, "settings_of_flow.FACTOR, which is 7"),
        ("inner", set_factor, "settings_of_flow.FACTOR, which is 7"),
        ("called", set_factor, "settings_of_flow.FACTOR, which is 7"),
        ("called_by_name", set_factor, "settings_of_flow.FACTOR, which is 7"),
        ("container", set_limit, "settings_of_flow.LIMITS, which is {'de': 1, 'fr': [2, 3, 4]}"),
        ("of_class", set_rate, "settings_of_flow.Rate.value, which is 7"),
        ("nested_class", set_depth, "settings_of_flow.Rate.Inner.depth, which is 7"),
    ],
)
def test_a_value_that_the_main_program_changed_is_named(
    modules: Callable[[], ModuleType], function: str, change: Callable[[Any], None], name: str
) -> None:
    main = modules()
    change(main)
    in_main = module_values([getattr(main, function)])
    (found,) = changed_values(in_main, module_values([getattr(modules(), function)]))
    assert name in found
    assert "flow_of_values.py:" in found or "settings_of_flow.py:" in found


@pytest.mark.parametrize("function", ["assigned", "installed", "unplain", "method"])
def test_what_no_worker_process_can_miss_is_not_collected(
    modules: Callable[[], ModuleType], function: str
) -> None:
    assert not module_values([getattr(modules(), function)])


def test_equal_values_are_not_named(modules: Callable[[], ModuleType]) -> None:
    in_main, in_worker = (
        module_values(one for one in vars(modules()).values() if isinstance(one, FunctionType))
        for _ in range(2)
    )
    assert len(in_main) == 5
    assert not list(changed_values(in_main, in_worker))


def test_functions_of_the_program_that_was_started_are_sent_with_their_values(
    modules: Callable[[], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = modules()
    monkeypatch.setitem(vars(flow), "__name__", "__main__")
    assert list(module_values([flow.own])) == []
    assert list(module_values([flow.attribute])) == ["settings_of_flow.FACTOR"]


def test_the_functions_of_a_topology_are_read(modules: Callable[[], ModuleType]) -> None:
    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=int)
    numbers.map_values(modules().attribute, value=int).to("out")
    assert list(module_values(builder.build().declared())) == ["settings_of_flow.FACTOR"]
