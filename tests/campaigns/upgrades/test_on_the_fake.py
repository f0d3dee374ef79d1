"""Every change of the list on the fake cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from logstate.contracts.records import TopicPartition
from logstate.testing import FakeCluster
from tests.campaigns.upgrades.change import Change
from tests.campaigns.upgrades.changes import CHANGES
from tests.campaigns.upgrades.topologies import INPUT, OTHER
from tests.campaigns.upgrades.upgrading import Upgrading

INPUT_0 = TopicPartition(INPUT, 0)


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_start_after_a_change_does_what_the_list_says(change: Change, tmp_path: Path) -> None:
    cluster = FakeCluster({INPUT: 1, OTHER: 1})

    def send(key: str, value: str, timestamp_ms: int) -> None:
        cluster.produce(INPUT, key.encode(), value.encode(), timestamp=timestamp_ms)

    def committed() -> int | None:
        return cluster.admin().committed_so_far("app", [INPUT_0])[INPUT_0].offset

    settings = {"bootstrap": "fake:9092", "cluster": cluster}
    Upgrading("app", tmp_path, settings, send, committed).run(change)
