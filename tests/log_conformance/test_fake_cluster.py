"""The fake cluster passes what the real one passes (tests/broker/test_log_conformance.py)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from logstate.testing import FakeCluster
from tests.log_conformance import group_cases, log_cases, transaction_cases
from tests.log_conformance.rig import Rig

CASES = [*log_cases.CASES, *transaction_cases.CASES, *group_cases.CASES]


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_fake_cluster_behaves_as_kafka(case: Callable[[Rig], None], protocol: str) -> None:
    cluster = FakeCluster(group_protocol="classic" if protocol == "classic" else "consumer")
    rig = Rig(cluster, poll_s=0)
    try:
        case(rig)
    finally:
        rig.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_so_does_one_that_sends_late_and_gives_out_partitions_one_by_one(
    case: Callable[[Rig], None],
) -> None:
    cluster = FakeCluster(buffers_sends=True, splits_assignments=True, fetch_records_max=1)
    rig = Rig(cluster, poll_s=0)
    try:
        case(rig)
    finally:
        rig.close()
