"""What of a changelog key decides about its partition."""

from __future__ import annotations

from typing import Any

import pytest

from logstate.changelog.stores.key_value import KEY_VALUE
from logstate.changelog.stores.kinds import kind_of
from logstate.changelog.stores.subscription import FOREIGN_KEY_SUBSCRIPTION
from logstate.contracts.changelog_keys import pack_session_tail, pack_start, pack_window_tail
from logstate.contracts.partitioner import partition_of
from logstate.serdes.join_serdes import (
    CombinedKeySerde,
    Instruction,
    Subscription,
    SubscriptionSerde,
)
from logstate.serdes.scalars import string
from logstate.topics.row_places import key_part, with_place_of_left
from logstate.topology.operators.streams.key_and_id_serde import KeyAndIdSerde

KEY = b"user-7"
_OF_ORDER = KeyAndIdSerde(string, string).serializer("t", True)((KEY.decode(), "order-1"))


@pytest.mark.parametrize(
    ("kind", "key_format", "logged"),
    [
        ("key_value", "string", KEY),
        ("versioned", "string", KEY),
        ("key_value", "timer", bytes(8) + KEY),
        ("timestamped_key_value", "waiting_record", bytes(17) + KEY),
        ("timestamped_window", "string", KEY + pack_window_tail(10, 3)),
        ("session", "string", KEY + pack_session_tail(20, 10)),
        ("timestamped_key_value", "windowed", KEY + pack_start(10)),
        ("suppress_buffer", "string", KEY),
        ("suppress_buffer", "windowed", KEY + pack_start(10)),
        ("suppress_buffer", "session_windowed", KEY + pack_session_tail(20, 10)),
        ("outer_join", "string", bytes(8) + b"\x01" + KEY),
        ("join_buffer", "string", bytes(9) + KEY + bytes(4)),
        ("timestamped_window", "key_and_id", _OF_ORDER + pack_window_tail(10, 0)),
    ],
)
def test_a_row_of_every_kind_lies_with_the_records_of_its_key(
    kind: str, key_format: str, logged: bytes
) -> None:
    assert (
        key_part(kind_of({"kind": kind}), {"format": key_format, "inner": {"format": "string"}})(
            logged
        )
        == KEY
    )


@pytest.mark.parametrize(
    ("kind", "levels", "hashed", "part"),
    [
        ("timestamped_key_value", 1, 1, KEY + pack_start(10)),
        ("timestamped_window", 1, 1, KEY + pack_start(10)),
        ("timestamped_window", 1, 0, KEY),
        ("suppress_buffer", 2, 1, KEY + pack_start(10)),
        ("suppress_buffer", 2, 2, KEY + pack_start(10) * 2),
    ],
)
def test_windows_that_are_hashed_with_the_key_stay(
    kind: str, levels: int, hashed: int, part: bytes
) -> None:
    key: dict[str, Any] = {"format": "string"}
    for _ in range(levels):
        key = {"format": "windowed", "inner": key}
    logged = KEY + pack_start(10) * levels
    if kind == "timestamped_window":
        logged += pack_window_tail(20, 1)

    assert key_part(kind_of({"kind": kind}), key, hashed)(logged) == part


def test_a_subscription_lies_with_its_right_row_and_names_the_place_of_its_left() -> None:
    topic = "app-registration"
    keys = CombinedKeySerde(string, string, registration_topic=topic).serializer(topic, True)
    serde = SubscriptionSerde(string)
    subscription = Subscription(bytes(16), Instruction.SUBSCRIBE_AND_ANSWER, "left", 3)
    key, value = keys(("right", "left")), serde.serializer(topic, False)(subscription)

    moved = with_place_of_left(key, value, key_part(KEY_VALUE, {"format": "string"}), 6)

    assert key_part(FOREIGN_KEY_SUBSCRIPTION, {"format": "combined_key"})(key) == b"right"
    assert moved is not None
    assert serde.deserializer(topic, False)(moved) == subscription._replace(
        primary_partition=partition_of(b"left", 6)
    )
    assert with_place_of_left(key, None, key_part(KEY_VALUE, {"format": "string"}), 6) is None
