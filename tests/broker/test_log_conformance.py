"""The real cluster passes what the fake one passes (tests/log_conformance)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError

from logstate.contracts.errors import RefusedError
from logstate.contracts.records import TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.broker.group_settings import expect_heartbeats_within
from tests.log_conformance import group_cases, transaction_cases
from tests.log_conformance.rig import BROKER_POLL_S, Rig, records
from tests.log_conformance.test_fake_cluster import CASES


def patient_rig(bootstrap: str, **options: Any) -> Rig:
    """Members and transactions outlive a pause of this process."""
    cluster = KafkaCluster(bootstrap, transaction_timeout_ms=300_000, **options)
    prepare_group = partial(expect_heartbeats_within, bootstrap)
    return Rig(cluster, poll_s=BROKER_POLL_S, prepare_group=prepare_group)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_kafka_behaves_so(case: Callable[[Rig], None], bootstrap: str) -> None:
    rig = patient_rig(bootstrap)
    try:
        case(rig)
    finally:
        rig.close()


@pytest.mark.parametrize(
    "case",
    [
        group_cases.a_start_outside_the_log_is_told_and_can_be_mended,
        group_cases.mending_a_partition_moves_no_other,
        group_cases.a_static_member_that_goes_for_good_hands_everything_over,
    ],
    ids=lambda case: case.__name__,
)
def test_without_incremental_calls_it_is_no_different(
    case: Callable[[Rig], None], bootstrap: str
) -> None:
    rig = patient_rig(bootstrap, group_protocol="classic")
    try:
        case(rig)
    finally:
        rig.close()


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in transaction_cases.CASES
        if case is not transaction_cases.a_flush_reports_the_next_offset_of_each_chosen_partition
    ],
    ids=lambda case: case.__name__,
)
def test_transactions_that_tell_no_positions_are_no_different(
    case: Callable[[Rig], None], bootstrap: str
) -> None:
    rig = patient_rig(bootstrap, reports_positions=False)
    try:
        case(rig)
    finally:
        rig.close()


def test_they_tell_of_records_that_brokers_refuse(bootstrap: str) -> None:
    rig = patient_rig(bootstrap, reports_positions=False)
    try:
        small = TopicPartition(rig.topic(config={"max.message.bytes": "200"}), 0)
        producer = rig.producer()
        producer.begin()
        producer.produce(records(small, secrets.token_bytes(1_000)))
        with pytest.raises(RefusedError, match="MSG_SIZE_TOO_LARGE"):  # noqa: PT012  early or late
            producer.flush()
            producer.commit()
    finally:
        rig.close()


@pytest.mark.usefixtures("way")
def test_a_topic_that_is_deleted_while_it_is_read_is_reported_to_the_callback_for_errors(
    bootstrap: str,
) -> None:
    codes: list[int] = []
    settings = {"error_cb": lambda error: codes.append(error.code())}
    rig = Rig(KafkaCluster(bootstrap, settings), poll_s=BROKER_POLL_S)
    try:
        gone, kept = TopicPartition(rig.topic(), 0), TopicPartition(rig.topic(), 0)
        rig.write(gone, b"a")
        reader = rig.reader({gone: 0, kept: 0})
        reader.read_to(gone, 1)
        rig.admin.delete_topics([gone.topic])
        missing = {KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART}
        rig.eventually(lambda: reader.poll() and missing & set(codes))
        rig.write(kept, b"b")
        rig.eventually(lambda: reader.poll() and reader.values == [b"a", b"b"])
    finally:
        rig.close()
