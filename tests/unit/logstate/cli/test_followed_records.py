"""``logstate tail --follow``: records as they come, until they cannot."""

from __future__ import annotations

import pytest

from logstate.cli.stores.tail import _read_until
from logstate.contracts.errors import TopicError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.testing.fake.cluster import FakeCluster


def test_what_comes_is_shown_and_a_topic_that_was_made_anew_is_no_silence() -> None:
    cluster = FakeCluster({"words": 1})
    words = TopicPartition("words", 0)
    producer = cluster.plain_producer()
    producer.produce([ProducedRecord("words", 0, b"a", b"1", 5)])
    producer.flush()

    followed = _read_until(cluster.log_consumer(), {words: 0})
    assert next(followed).value() == b"1"

    with pytest.raises(
        TopicError, match=r"words-0 does not have offset 7 any more: .* created again"
    ):
        next(_read_until(cluster.log_consumer(), {words: 7}))
