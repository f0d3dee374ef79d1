"""How the state of a stopped application is written."""

from __future__ import annotations

import pytest

from logstate.admin.stopped_application import StoppedApplication
from logstate.contracts.errors import RetriableError
from logstate.contracts.records import ProducedRecord
from logstate.contracts.topic_names import cuts_topic
from logstate.testing import FakeCluster
from logstate.testing.fake.faults import Fault
from tests.campaigns.simulation.fake_logs import FakeLogReader, FakeLogs


def test_a_late_copy_of_a_commit_cannot_end_the_transaction_after_it() -> None:
    """A broker before transaction.version 2 applies the copy to whatever is open then."""
    cluster = FakeCluster({cuts_topic("shop"): 1, "rows": 1})
    logs = FakeLogs(FakeLogReader(cluster, cluster.process("move"), lambda _: None))
    rows = [ProducedRecord("rows", 0, b"ada", b"1", 1)]

    with StoppedApplication("shop", cluster, logs) as application:
        cluster.faults.add(Fault("commit", is_repeated=True))
        application.append(rows)
        with pytest.raises(RetriableError, match=r"requested twice.*run the command again"):
            application.append(rows)
        cluster.deliver_late_end()

    assert len(cluster.records("rows")) == 1
    with StoppedApplication("shop", cluster, logs) as application:
        application.append(rows)
    assert len(cluster.records("rows")) == 2
