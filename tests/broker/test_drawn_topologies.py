"""Drawn topologies through Kafka Streams' own test driver and ours."""

from __future__ import annotations

import logging
from collections import Counter

from tests.differential.cases import drawn_case
from tests.differential.jvm import KafkaStreams
from tests.differential.verdict import judged


def test_drawn_topologies_give_what_kafka_streams_gives() -> None:
    logging.disable(logging.WARNING)  # of late records and deleted rows, which are wanted here
    try:
        with KafkaStreams() as streams:
            verdicts = {seed: judged(streams, drawn_case(seed)) for seed in range(40)}
    finally:
        logging.disable(logging.NOTSET)

    assert [one for one in verdicts.items() if one[1].kind in ("different", "refused")] == []
    assert Counter(one.kind for one in verdicts.values())["equal"] >= 30
    assert sum(one.rows for one in verdicts.values()) > 3_000
