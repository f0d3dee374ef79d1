"""Readers of committed offsets while their broker goes away and comes back."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from logstate.local_broker.broker import LocalBroker
from tests.broker import cut_reader
from tests.broker.jvm_program import HERE
from tests.campaigns.chaos.environment import brokers_that_start_fast
from tests.patience import PATIENCE_S
from tests.spark.changelog_writer import ApplicationLog, int64

pytestmark = pytest.mark.slow

READERS = 8
#: twenty by hand
RESTARTS = int(os.environ.get("LOGSTATE_RESTARTS", "3"))
APPLICATION = "spending"


def test_readers_survive_a_broker_that_restarts_and_are_told_the_same_cut(tmp_path: Path) -> None:
    rng = random.Random(7)
    with (
        brokers_that_start_fast(),
        LocalBroker.start(data=tmp_path / "broker", heap="320m") as broker,
    ):
        log = ApplicationLog(broker.bootstrap, APPLICATION)
        topic = log.add_store("spend")
        positions = [log.write(topic, [(b"a", int64(1))], partition=n) for n in range(2)]
        for partition, position in enumerate(positions):
            log.commit(10 + partition, {topic: position}, partition=partition)
        command = [sys.executable, "-m", cut_reader.__name__, broker.bootstrap, APPLICATION]
        readers = [
            subprocess.Popen(
                command,
                cwd=HERE.parents[1],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=(tmp_path / f"reader-{n}.log").open("w"),
                text=True,
            )
            for n in range(READERS)
        ]
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "told\n"
        for number in range(RESTARTS):
            time.sleep(rng.uniform(1.0, 3.0))  # in the middle of whatever they do
            if number % 2:
                broker.kill()
            broker.restart()
            assert [reader.poll() for reader in readers] == [None] * READERS, number
        time.sleep(2.0)
        answers = [reader.communicate(timeout=PATIENCE_S)[0] for reader in readers]
    assert [reader.returncode for reader in readers] == [0] * READERS
    told: Counter[str] = sum((Counter(json.loads(answer)) for answer in answers), Counter())
    print(f"\n{RESTARTS} restarts: {dict(told)}")
    cut = {topic: {str(n): position for n, position in enumerate(positions)}}
    refused = {one for one in told if one.startswith("BrokerError: ")}
    assert [json.loads(one) for one in told.keys() - refused] == [cut]
    assert all("answer" in one for one in refused), refused  # for longer than readers wait
