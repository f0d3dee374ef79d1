"""Kill an instance at a moment when its transaction is open on the broker, and prove that.

The victim is frozen (SIGSTOP) for the look, so that what the broker describes is what is killed; if
its transaction is not open, or has written nothing that an output's reader would have to wait for,
it goes on and is looked at again. What it had written by then must never be seen by anybody who
reads committed: ``aborted_records`` counts that when the dust has settled.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from examples.flights.outputs import Offsets, Partition, offsets, records_between
from examples.flights.supervisor import Instance, InstanceError
from examples.flights.transactions import Transaction, describe_transaction

_IN_FLIGHT_S = 0.05


@dataclass(frozen=True)
class Kill:
    """What was seen while the victim stood still, right before it died."""

    transaction: Transaction
    pending: dict[Partition, Offsets]
    looks: int

    @property
    def was_open(self) -> bool:
        return self.transaction.state == "Ongoing"


def kill_in_open_transaction(
    victim: Instance,
    bootstrap: str,
    output_topics: tuple[str, ...],
    chance: random.Random,
    timeout_s: float = 30,
) -> Kill:
    """Freeze, look, and kill if the transaction is open; else let go and try again."""
    deadline = time.monotonic() + timeout_s
    looks = 0
    while time.monotonic() < deadline:
        victim.freeze()
        looks += 1
        transaction = _open_transaction(victim, bootstrap)
        if transaction is not None:
            outputs = [at for at in transaction.partitions if at[0] in output_topics]
            pending = {at: end for at, end in offsets(bootstrap, outputs) if _is_pending(end)}
            # A commit request sent just before the freeze would have arrived by now.
            time.sleep(_IN_FLIGHT_S)
            if pending and _open_transaction(victim, bootstrap) == transaction:
                victim.kill()
                return Kill(transaction, pending, looks)
        victim.thaw()
        # A commit comes every so many milliseconds: look at another point of its course each time.
        time.sleep(chance.uniform(0.005, 0.1))
    raise InstanceError(
        f"instance {victim.name} had no open transaction with output records in any of {looks}"
        f" looks in {timeout_s:g} s. Is it still processing?"
    )


def aborted_records(bootstrap: str, kill: Kill) -> int:
    """Records of the killed transaction on the log that no reader of committed records gets."""
    aborted = 0
    for at, (start, end) in kill.pending.items():
        written = records_between(bootstrap, at, start, end, "read_uncommitted")
        aborted += written - records_between(bootstrap, at, start, end, "read_committed")
    return aborted


def _open_transaction(victim: Instance, bootstrap: str) -> Transaction | None:
    if victim.status is None:
        return None
    transaction = describe_transaction(bootstrap, victim.status.transactional_id)
    is_open = transaction is not None and transaction.state == "Ongoing"
    return transaction if is_open else None


def _is_pending(end: Offsets) -> bool:
    return end.committed < end.written
