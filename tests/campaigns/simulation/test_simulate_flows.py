"""No false alarms: what the simulator's own oracles find right, ``simulate`` finds right."""

from __future__ import annotations

from typing import Any

import pytest

from logstate.testing import simulate
from logstate.topology import Topology
from tests.campaigns.simulation import dataset, flow, foreign_keys

_NAMES = [(flow.NAMES, key.decode(), value.decode(), 1) for key, value in flow.NAME_ROWS.items()]


def _topology(variant: str) -> Topology:
    if variant == "foreign_keys":
        return foreign_keys.topology(in_memory=False)
    return flow.topology(variant, in_memory=False)


@pytest.mark.parametrize(
    "variant",
    [
        "streams",
        "sources",
        "versions",
        "timers",
        "late",
        "foreign_keys",
        "collections",
        "aggregates",
        "counts",
        "distinct",
        "intervals",
        "as_of",
        "ordered",
    ],
)
def test_joins_windows_sessions_and_timers_pass(variant: str) -> None:
    inputs: list[Any] = [
        (one.topic, (one.key or b"").decode(), (one.value or b"").decode(), one.timestamp)
        for one in dataset.inputs(3)
    ]
    given = [*_NAMES, *inputs] if variant == "sources" else inputs
    result = simulate(_topology(variant), given, schedules=4)
    assert result.counters["outputs_compared"] > 100
    assert result.counters["rows_compared"] > 50
