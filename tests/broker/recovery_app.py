"""An application with large rows in a process of its own, for the test of recovery times.

``rows`` (key, "sequence:payload") keeps the last value per key in store ``latest`` and writes the
sequence numbers to ``seen``.
"""

from __future__ import annotations

import argparse
import logging
from datetime import timedelta
from pathlib import Path

from logstate.app.application import Application
from logstate.kafka.cluster import KafkaCluster
from logstate.topology import StreamsBuilder
from logstate.topology.plan.plan import Topology

CHECKPOINT = timedelta(seconds=1)
#: so long that only the bytes bound the tail
NEVER = timedelta(hours=1)
CHECKPOINT_BYTES = 2 << 20
COMMIT = timedelta(milliseconds=100)
#: a start that waits for the brokers to give up on the transaction of a killed one takes so long
TRANSACTION_TIMEOUT_S = 600


def topology(prefix: str) -> Topology:
    """The topology; every topic carries the prefix of one test."""
    builder = StreamsBuilder()
    rows = builder.stream(f"{prefix}-rows", key=str, value=str)
    latest = rows.group_by_key().reduce(lambda _, new: new, store="latest")
    latest.to_stream().map_values(lambda row: row.partition(":")[0], value=str).to(f"{prefix}-seen")
    return builder.build()


def application(
    bootstrap: str, prefix: str, state_dir: Path, checkpoint: timedelta = CHECKPOINT
) -> Application:
    """The instance."""
    return Application(
        topology(prefix),
        application_id=prefix,
        bootstrap=bootstrap,
        state_dir=state_dir,
        commit_interval=COMMIT,
        checkpoint_interval=checkpoint,
        checkpoint_bytes=CHECKPOINT_BYTES,
        cluster=KafkaCluster(
            bootstrap,
            client_id=prefix,
            transaction_timeout_ms=1_000 * TRANSACTION_TIMEOUT_S,
            reader_group=prefix,
        ),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("prefix")
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("checkpoint_s", type=float)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    checkpoint = timedelta(seconds=arguments.checkpoint_s)
    application(arguments.bootstrap, arguments.prefix, arguments.state_dir, checkpoint).run()
