"""What a run needs of its application context: a broker that is back soon, and a look at
transactions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from examples.flights.transactions import describe_transaction, list_transactions

#: a broker that lives for seconds gains nothing from the optimising compiler, and starts in half
#: the time without it
_SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_VARIABLE = "JAVA_TOOL_OPTIONS"
_ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


@contextmanager
def brokers_that_start_fast() -> Iterator[None]:
    """JVMs started inside start faster, and run slower."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = " ".join(filter(None, [before, _SHORT_LIVED_JVM]))
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


def open_transactions(bootstrap: str) -> list[str]:
    """Transactions that have not ended, in words."""
    found = []
    for name in list_transactions(bootstrap):
        transaction = describe_transaction(bootstrap, name)
        if transaction is not None and transaction.state not in _ENDED:
            found.append(f"{name} is {transaction.state} in {len(transaction.partitions)} logs")
    return found
