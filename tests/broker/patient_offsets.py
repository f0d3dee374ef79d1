"""Committed offsets, asked for until the broker tells: a group's coordinator may be on its way."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from logstate.contracts.errors import RetriableError
from logstate.contracts.records import TopicPartition
from logstate.contracts.seams import Admin, Committed

_PATIENCE_S = 60.0
_SHORTLY = threading.Event()


def committed_offsets(
    admin: Admin, group: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, Committed]:
    """As ``admin.committed_so_far`` tells them; raises its RetriableError after a minute."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return dict(admin.committed_so_far(group, partitions))
        except RetriableError:
            if time.monotonic() > deadline:
                raise
        _SHORTLY.wait(0.05)
