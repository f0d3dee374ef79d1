"""Whether a transaction is over for its readers: a commit returns before that.

The coordinator answers when it has decided, and then writes the markers to the partitions and to
the group's offsets. Until they are there, readers of committed records see neither.
"""

from __future__ import annotations

from examples.flights.transactions import describe_transaction


def are_written(bootstrap: str, transactional_id: str) -> bool:
    """All markers of the last transaction of this id, if it has had any."""
    last = describe_transaction(bootstrap, transactional_id)
    return last is None or last.state in ("Empty", "CompleteCommit", "CompleteAbort")
