"""The real cluster passes what the fake one passes (tests/log_conformance)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from logstate.kafka.cluster import KafkaCluster
from tests.log_conformance import group_cases
from tests.log_conformance.rig import Rig
from tests.log_conformance.test_fake_cluster import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_kafka_behaves_so(case: Callable[[Rig], None], bootstrap: str) -> None:
    rig = Rig(KafkaCluster(bootstrap, transaction_timeout_ms=60_000))
    try:
        case(rig)
    finally:
        rig.close()


@pytest.mark.parametrize(
    "case",
    [
        group_cases.a_start_outside_the_log_is_told_and_can_be_mended,
        group_cases.mending_a_partition_moves_no_other,
    ],
    ids=lambda case: case.__name__,
)
def test_without_incremental_calls_partitions_are_mended_too(
    case: Callable[[Rig], None], bootstrap: str
) -> None:
    rig = Rig(KafkaCluster(bootstrap, group_protocol="classic"))
    try:
        case(rig)
    finally:
        rig.close()
