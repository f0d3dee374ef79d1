"""One query as an application.

./dev run python -m examples.nexmark.app 127.0.0.1:PORT q8
"""

from __future__ import annotations

import sys

from examples.nexmark import queries
from logstate import StreamsBuilder, Topology


def topology(prefix: str = "", query: str = "q8") -> Topology:
    """Return the topology of a query, such as ``"q4"``."""
    builder = StreamsBuilder()
    getattr(queries, query)(builder)
    return builder.build().with_topic_prefix(prefix)


if __name__ == "__main__":
    from examples.playground import play

    chosen = sys.argv[2] if len(sys.argv) > 2 else "q8"
    play(topology(query=chosen), application_id=f"nexmark-{chosen}")
