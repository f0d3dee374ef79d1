"""One instance with several worker processes: killed, drained, read, from a script of one file."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import IO

import pytest

from logstate import Application, ApplicationState, Serving
from logstate.contracts.errors import StoreUnavailableError
from logstate.queries.queries import QueryableStore
from tests.broker.counting_app import topology
from tests.broker.counting_scenario import PARTITIONS, ROOT, USERS, Scenario
from tests.broker.group_settings import expect_heartbeats_within
from tests.patience import PATIENCE_S, until

WORKERS = 2


class ScriptScenario(Scenario):
    """The scenario of plain instances, with one script that has worker processes."""

    def _process(self, number: int, log: IO[bytes]) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(ROOT / "tests" / "broker" / "workers_app.py")]
        arguments = [self.bootstrap, self.prefix, str(self.state_dir(number)), str(WORKERS)]
        return subprocess.Popen(
            [*command, *arguments],
            cwd=self.path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )

    def workers(self) -> dict[int, int]:
        """Worker -> the process that it is, by what was logged last."""
        said = re.findall(r"worker-(\d):(\d+) ", self.log(0).read_text())
        return {int(number): int(process) for number, process in said}

    def until_workers(self) -> dict[int, int]:
        """Wait until each has said something."""
        until(lambda: len(self.workers()) == WORKERS, lambda: self.log(0).read_text())
        return self.workers()

    def read(self) -> dict[str, dict[str, int]]:
        """All rows, as the running instance reads them."""
        stdin, stdout = self.instances[0].stdin, self.instances[0].stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(b"\n")
        stdin.flush()
        found: dict[str, dict[str, int]] = json.loads(stdout.readline())
        return found

    def expected(self) -> dict[str, dict[str, int]]:
        """What plain counting gives."""
        return {
            "per-user": dict(Counter(user for user, _ in self.sent)),
            "per-page": dict(Counter(page for _, page in self.sent)),
        }


@pytest.fixture
def scenario(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> Iterator[ScriptScenario]:
    made = ScriptScenario(bootstrap, unique("workers"), tmp_path)
    try:
        yield made
    finally:
        for process in made.instances.values():
            process.kill()
        made.producer.close()


def test_a_worker_killed_under_load_loses_and_doubles_nothing_and_the_others_go_on(
    scenario: ScriptScenario,
) -> None:
    rng = random.Random(1)
    expect_heartbeats_within(scenario.bootstrap, scenario.prefix, timeout_ms=6_000)
    scenario.start(0)
    before = scenario.until_workers()
    for number in (0, 1):
        scenario.send(1_000, rng)
        time.sleep(rng.uniform(0.3, 1.0))  # a kill at a random moment
        os.kill(scenario.workers()[number], signal.SIGKILL)
        scenario.send(1_000, rng)
    scenario.outputs("per-user", len(scenario.sent))
    scenario.outputs("per-page", len(scenario.sent))
    until(lambda: scenario.read() == scenario.expected())
    after = scenario.workers()
    assert all(before[number] != after[number] for number in (0, 1))
    said = scenario.log(0).read_text()
    assert "worker 0 was killed by SIGKILL" in said
    assert "worker 1 was killed by SIGKILL" in said
    assert scenario.instances[0].poll() is None
    scenario.check()


def test_sigterm_drains_every_worker_and_leaves_no_process(scenario: ScriptScenario) -> None:
    scenario.start(0)
    workers = scenario.until_workers()
    scenario.send(2_000, random.Random(2))
    scenario.outputs("per-user", 2_000)
    scenario.stop()
    assert "is killed" not in scenario.log(0).read_text()
    assert not any(map(_lives, workers.values()))
    scenario.check()


def test_workers_of_a_killed_instance_end_by_themselves(scenario: ScriptScenario) -> None:
    scenario.start(0)
    workers = scenario.until_workers()
    scenario.kill(0)
    until(lambda: not any(map(_lives, workers.values())), "they outlive their instance")


def test_every_worker_answers_for_its_partitions_embedded_in_a_service(
    scenario: ScriptScenario, tmp_path: Path
) -> None:
    scenario.send(1_000, random.Random(3))
    before = signal.getsignal(signal.SIGTERM)
    users = Counter(user for user, _ in scenario.sent)
    expect_heartbeats_within(scenario.bootstrap, scenario.prefix)  # or records are read twice

    async def eventually(is_so: Callable[[], object]) -> None:
        await asyncio.to_thread(until, is_so)

    async def service() -> Application:
        app = Application(
            topology(scenario.prefix),
            application_id=scenario.prefix,
            bootstrap=scenario.bootstrap,
            state_dir=tmp_path / "embedded",
            commit_interval=timedelta(milliseconds=50),
            workers=WORKERS,
            serve=Serving(advertised="http://here:1"),
        )
        async with app:
            await asyncio.to_thread(scenario.outputs, "per-user", 1_000)
            await asyncio.to_thread(app.wait_until_running, timedelta(seconds=PATIENCE_S))
            store = app.store("per-user")
            # One worker may have counted everything before the other had a task.
            await eventually(lambda: store.partitions == list(range(PARTITIONS)))
            await eventually(lambda: _rows(store) == users)
            await eventually(lambda: len(app.transactional_ids) == WORKERS)
            # Every click is counted twice; its directory entry has what both workers did.
            await eventually(
                lambda: sum(one.figures.processed for one in app.all_instances()) >= 2_000
            )
            (told,) = app.all_instances()
            assert told.figures.processed == 2_000
            assert told.figures.commits >= WORKERS
            assert told.figures.commit_seconds > 0
            assert signal.getsignal(signal.SIGTERM) is before
            app.pause()
            await eventually(lambda: app.state is ApplicationState.PAUSED)
            app.resume()
            await workers_come_and_go(app)
        return app

    async def workers_come_and_go(app: Application) -> None:
        assert app.add_worker() == WORKERS + 1
        await eventually(lambda: len(app.transactional_ids) == WORKERS + 1 and app.is_ready())
        assert (app.remove_worker(), app.remove_worker()) == (WORKERS, WORKERS - 1)
        await eventually(lambda: len(app.transactional_ids) == WORKERS - 1 and app.is_ready())
        await asyncio.to_thread(app.wait_until_running, timedelta(seconds=PATIENCE_S))
        scenario.send(500, random.Random(4))
        await asyncio.to_thread(scenario.outputs, "per-user", 1_500)

    app = asyncio.run(service())
    assert app.state is ApplicationState.STOPPED
    app.clean_up()
    assert not list((tmp_path / "embedded" / scenario.prefix).glob("0_*"))


def _rows(store: QueryableStore) -> dict[str, int]:
    try:
        found = {f"user-{n}": store.get(f"user-{n}") for n in range(USERS)}
    except StoreUnavailableError:
        return {}
    return {user: row.value for user, row in found.items() if row is not None}


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
