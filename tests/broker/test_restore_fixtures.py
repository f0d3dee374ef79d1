"""The restore fixtures on a real broker (see tests/restore_fixtures)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.restore_world import KafkaWorld
from tests.restore_fixtures.bench import Bench
from tests.restore_fixtures.cases import CASES, TWO_PARTITIONS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_restore_from_kafka_survives_this_log(
    case: Callable[[Bench], None], bootstrap: str, tmp_path: Path
) -> None:
    bench = Bench(KafkaWorld(bootstrap), tmp_path, partitions=2 if case in TWO_PARTITIONS else 1)
    try:
        case(bench)
    finally:
        bench.close()
