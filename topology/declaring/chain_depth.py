"""The maximum number of operators in a chain without a topic between them.

An operator passes a record on by calling the next one, so a chain of operators takes a call each,
two where several operators are below one. Python allows 1,000 calls within one another
(``sys.getrecursionlimit()``); half of them are left to what runs the task and to user functions.
"""

from __future__ import annotations

import sys

from logstate.contracts.errors import TopologyError


def check_depth(depth: int, name: str, declared_at: str | None) -> None:
    """Raise TopologyError for an operator that is too far below its source."""
    most = sys.getrecursionlimit() // 2
    if depth > most:
        raise TopologyError(
            f"Operator {name!r} is number {depth} in a chain of operators that call one another,"
            f" and a chain has at most {most}: each takes a call, two where several operators are"
            f" below one, and Python allows {sys.getrecursionlimit()} calls within one another. Do"
            " several steps in one function, read many topics by stream(topic, topic, ...) instead"
            " of merging them one by one, divide the chain by repartition(), or raise"
            " sys.setrecursionlimit() before the topology is declared.",
            declared_at=declared_at,
        )
