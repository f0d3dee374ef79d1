"""The real cluster passes what the fake one passes (tests/log_conformance)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from logstate.kafka.cluster import KafkaCluster
from tests.log_conformance.rig import Rig
from tests.log_conformance.test_fake_cluster import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_kafka_behaves_so(case: Callable[[Rig], None], bootstrap: str) -> None:
    rig = Rig(KafkaCluster(bootstrap, transaction_timeout_ms=60_000))
    try:
        case(rig)
    finally:
        rig.close()
