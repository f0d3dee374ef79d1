"""Drawn topologies through Kafka Streams' own test driver and ours."""

from __future__ import annotations

import logging
from collections import Counter

from tests.campaigns.differential.cases import drawn_case
from tests.campaigns.differential.jvm import KafkaStreams
from tests.campaigns.differential.verdict import judged


def test_drawn_topologies_give_what_kafka_streams_gives() -> None:
    logging.disable(logging.WARNING)  # of late records and deleted rows, which are wanted here
    try:
        with KafkaStreams() as streams:
            verdicts = {seed: judged(streams, drawn_case(seed)) for seed in range(40)}
            on_commit = {
                f"{seed} on commit": judged(streams, drawn_case(seed, emits_on_commit=True))
                for seed in range(1_000, 1_020)
            }
    finally:
        logging.disable(logging.NOTSET)

    found = [*verdicts.items(), *on_commit.items()]
    assert [one for one in found if one[1].kind in ("different", "refused")] == []
    assert Counter(one.kind for one in verdicts.values())["equal"] >= 30
    assert Counter(one.kind for one in on_commit.values())["equal"] >= 15
    assert sum(one.rows for one in verdicts.values()) > 3_000
    assert sum(one.rows for one in on_commit.values()) > 1_500
