"""However many instances run, die and lose their disks: the same outputs, the same stores."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker.counting_scenario import PARTITIONS, Scenario, running
from tests.broker.group_settings import expect_heartbeats_within
from tests.campaigns.chaos.environment import open_transactions
from tests.performance.topics import Topics

#: a killed member is missed after it, and one that stands still for less stays
KILLED_MS = 15_000
#: what is open for so long is decided by nobody
STAYS_OPEN_S = 3.0


@pytest.fixture
def scenario(bootstrap: str, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Scenario]:
    with running(bootstrap, unique("count"), tmp_path) as made:
        yield made


@pytest.mark.parametrize("instances", [1, 2, 3])
def test_any_number_of_instances_gives_the_same_outputs_and_stores(
    scenario: Scenario, instances: int
) -> None:
    rng = random.Random(instances)
    for number in range(instances):
        scenario.start(number)
    for _ in range(4):
        scenario.send(1_500, rng)

    scenario.check()


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_instances_and_lost_directories_change_nothing(
    scenario: Scenario, seed: int
) -> None:
    rng = random.Random(seed)
    scenario.start(0)
    scenario.start(1)
    for _ in range(4):
        scenario.send(1_000, rng)
        time.sleep(rng.uniform(0.5, 2.0))  # a kill at a random moment
        victim = rng.randrange(2)
        scenario.kill(victim)
        if rng.random() < 0.5:
            # An instance that was killed while it started may not have made it yet.
            shutil.rmtree(scenario.state_dir(victim), ignore_errors=True)
        scenario.send(1_000, rng)
        scenario.start(victim)

    scenario.check()


def test_the_tasks_of_a_killed_instance_go_on_where_their_standbys_are(scenario: Scenario) -> None:
    rng = random.Random(4)
    expect_heartbeats_within(scenario.bootstrap, scenario.prefix, timeout_ms=KILLED_MS)
    scenario.standbys = 1
    scenario.start(0)
    scenario.send(3_000, rng)
    scenario.outputs("per-page", 3_000)
    scenario.start(1)
    scenario.expect_said(1, "partitions assigned")
    scenario.kill(0)
    scenario.send(1_000, rng)
    scenario.outputs("per-page", 4_000)

    assert len(scenario.said(1, "its standby is promoted")) == 2 * PARTITIONS
    scenario.check()


def test_an_heir_ends_what_a_member_left_open_that_never_comes_back(scenario: Scenario) -> None:
    rng = random.Random(3)
    changelog = f"{scenario.prefix}-per-user-changelog"
    topics = Topics(scenario.bootstrap, PARTITIONS)
    expect_heartbeats_within(scenario.bootstrap, scenario.prefix, timeout_ms=KILLED_MS)
    scenario.transaction_timeout_s = 600  # the heir ends it, and never the broker
    scenario.start(0)
    scenario.send(2_000, rng)
    scenario.outputs("per-user", 2_000)
    for _ in range(300):  # until it stands in the middle of a commit that nobody has decided
        scenario.send(500, rng)
        time.sleep(rng.uniform(0.0, 0.05))
        scenario.instances[0].send_signal(signal.SIGSTOP)
        if _stays_open(topics, changelog, scenario.prefix):
            break
        scenario.instances[0].send_signal(signal.SIGCONT)
    else:
        pytest.fail("it was never caught in a commit")
    scenario.kill(0)
    scenario.send(2_000, rng)
    scenario.start(1)

    scenario.check()
    said = scenario.log(1).read_text()
    assert "is fenced: restores wait for a transaction that it left open" in said


def _stays_open(topics: Topics, topic: str, prefix: str) -> bool:
    """Whether a transaction is open that nobody decides.

    What a stopped instance sent before is still carried out, and the markers of a transaction
    that was decided are on their way for a while: only what is open for some time stays so.
    """
    end = time.monotonic() + STAYS_OPEN_S
    while topics.end(topic) > topics.end(topic, is_committed=True):
        if time.monotonic() > end:
            told = open_transactions(topics.bootstrap)
            return any(one.startswith(prefix) and " is Ongoing in " in one for one in told)
    return False
