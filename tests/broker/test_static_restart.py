"""Static members: a restart moves nothing, and whoever leaves for good gives everything up."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from logstate.app.application import Application
from tests.broker.counting_app import application
from tests.broker.counting_scenario import PARTITIONS, Scenario, running
from tests.broker.group_settings import expect_heartbeats_within
from tests.patience import until

TASKS = 2 * PARTITIONS
#: the longest that brokers allow: nobody is missed through a pause of this process
SESSION_MS = 60_000


def tasks_of(apps: dict[int, Application]) -> dict[int, list[str]]:
    return {number: sorted(app.tasks()) for number, app in apps.items()}


def until_all_run(apps: dict[int, Application]) -> None:
    """Wait until every task runs, and each of them has some."""

    def do_all_run() -> bool:
        stages = [stage for app in apps.values() for stage in app.tasks().values()]
        return stages == ["running"] * TASKS and all(app.tasks() for app in apps.values())

    until(do_all_run, lambda: f"{tasks_of(apps)}")


def rebalances(app: Application) -> float:
    return app.metrics_registry.total("rebalance_total")


def test_a_rolling_restart_of_static_members_moves_nothing_and_the_last_leave_gives_all_up(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    rng = random.Random(5)
    with running(bootstrap, unique("static"), tmp_path) as scenario, ExitStack() as stack:
        apps: dict[int, Application] = {}
        expect_heartbeats_within(bootstrap, scenario.prefix, timeout_ms=SESSION_MS)

        def start(number: int) -> None:
            directory = scenario.state_dir(number)
            app = application(bootstrap, scenario.prefix, directory, static=True)
            apps[number] = stack.enter_context(app)

        for number in range(3):
            start(number)
            until_all_run(apps)
        before = tasks_of(apps)
        for number in range(3):
            scenario.send(300, rng)
            others = {n: rebalances(app) for n, app in apps.items() if n != number}
            apps[number].close()
            scenario.send(300, rng)
            start(number)
            until_all_run(apps)
            assert tasks_of(apps) == before
            assert {n: rebalances(apps[n]) for n in others} == others, "they noticed it"
        leave_for_good(scenario, apps)
        scenario.send(300, rng)
        scenario.outputs("per-page", len(scenario.sent))
        apps.pop(0).close(leave_group=True)
        scenario.check()


def leave_for_good(scenario: Scenario, apps: dict[int, Application]) -> None:
    for number in (1, 2):
        scenario.send(300, random.Random(number))
        began = time.monotonic()
        apps.pop(number).close(leave_group=True)
        until_all_run(apps)
        assert time.monotonic() - began < SESSION_MS / 1_000, "they waited for its session"
