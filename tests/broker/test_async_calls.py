"""Asynchronous calls on the real broker: each result comes once, although the process is killed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.async_app import topology
from tests.broker.killed_app import application
from tests.broker.test_time_joins import USERS, Sent, Shop
from tests.campaigns.toolkit.process import start_module
from tests.patience import PATIENCE_S

EVENTS = range(8)


@pytest.mark.parametrize("kill_after", [3, 30, 150])
def test_each_event_has_one_result_in_the_order_of_the_events(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path, kill_after: int
) -> None:
    prefix = unique("called")
    shop = Shop(bootstrap, prefix, "events")
    sent: list[Sent] = [("events", user, f"e{n} of {user}", n) for n in EVENTS for user in USERS]
    shop.send(sent)
    process = start_module("tests.broker.async_app", bootstrap, prefix, tmp_path, kill_after)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    with application(topology, bootstrap, prefix, tmp_path):
        shop.wait_for(len(sent))
    shop.read_to_end()
    for user in USERS:
        results = [one for one in shop.results if one.endswith(f" of {user}")]
        assert results == [f"{n} called e{n} of {user}" for n in EVENTS]
    assert len(shop.results) == len(sent)
