"""Kill an instance at a moment when its transaction is open on the broker, and prove that.

When the broker says that the victim's transaction is open and holds output records, it is frozen a
moment later (SIGSTOP) and looked at again: what is described now is what is killed. If it is over
meanwhile, the victim goes on, and the next transaction is waited for. What it had written by then
must never be seen by anybody who reads committed: ``aborted_records`` counts that in the end.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from examples.flights.outputs import Offsets, Partition, offsets, records_between
from examples.flights.supervisor import Instance, InstanceError
from examples.flights.transactions import Transaction, describe_transaction

# A commit request that was sent just before the freeze has arrived after so long.
_IN_FLIGHT_S = 0.5
# The freeze comes up to so long after the transaction was seen open: commits are 100 ms apart.
_DELAY_S_MAX = 0.05


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
    timeout_s: float = 180,
) -> Kill:
    """Wait for an open transaction, freeze, look again, and kill; or let go and try again."""
    deadline = time.monotonic() + timeout_s
    looks = 0
    while time.monotonic() < deadline:
        if _open_transaction(victim, bootstrap, output_topics) is None:
            time.sleep(0.002)
            continue
        time.sleep(chance.uniform(0, _DELAY_S_MAX))
        victim.freeze()
        looks += 1
        time.sleep(_IN_FLIGHT_S)
        transaction = _open_transaction(victim, bootstrap, output_topics)
        if transaction is not None:
            outputs = [at for at in transaction.partitions if at[0] in output_topics]
            pending = {at: end for at, end in offsets(bootstrap, outputs) if _is_pending(end)}
            if pending:
                victim.kill()
                return Kill(transaction, pending, looks)
        victim.thaw()
    raise InstanceError(
        f"instance {victim.name} was frozen {looks} times in {timeout_s:g} s, and never with an "
        f"open transaction that held output records. It says {victim.status}: was anything left "
        "to do?"
    )


def aborted_records(bootstrap: str, kill: Kill) -> int:
    """Records of the killed transaction on the log that no reader of committed records gets."""
    aborted = 0
    for at, (start, end) in kill.pending.items():
        written = records_between(bootstrap, at, start, end, "read_uncommitted")
        aborted += written - records_between(bootstrap, at, start, end, "read_committed")
    return aborted


def _open_transaction(
    victim: Instance, bootstrap: str, output_topics: tuple[str, ...]
) -> Transaction | None:
    """The victim's transaction if it is open and has written to an output topic."""
    victim.check()
    if victim.status is None:
        return None
    transaction = describe_transaction(bootstrap, victim.status.transactional_id)
    if transaction is None or transaction.state != "Ongoing":
        return None
    return transaction if any(at[0] in output_topics for at in transaction.partitions) else None


def _is_pending(end: Offsets) -> bool:
    return end.committed < end.written
