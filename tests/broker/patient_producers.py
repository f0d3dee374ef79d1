"""Transactional producers whose coordinator may still read its log, as after a broker's start.

A worker asks again at its next turn; who asks once fails where the machine is busy.
"""

from __future__ import annotations

from logstate.contracts.clients import TransactionalProducer
from logstate.contracts.errors import RetriableError
from tests.patience import until


def initialised(producer: TransactionalProducer) -> TransactionalProducer:
    """The producer, once its id is there for it."""

    def is_ready() -> bool:
        try:
            producer.init_transactions()
        except RetriableError:
            return False
        return True

    until(is_ready, "no coordinator initialises the transactional id")
    return producer
