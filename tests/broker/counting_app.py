"""A small application in a process of its own, for tests that kill it.

``clicks`` (key user, value page) is counted per user straight from its source partition, to
``per-user``, and per page behind a repartition topic, to ``per-page``.
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


def topology(prefix: str) -> Topology:
    """The topology; every topic carries the prefix of one test."""
    builder = StreamsBuilder()
    clicks = builder.stream(f"{prefix}-clicks", key=str, value=str)
    clicks.group_by_key().count(store="per-user").to_stream().to(f"{prefix}-per-user")
    by_page = clicks.group_by(lambda user, page: page, name="by-page", key=str)
    by_page.count(store="per-page").to_stream().to(f"{prefix}-per-page")
    return builder.build()


def application(
    bootstrap: str,
    prefix: str,
    state_dir: Path,
    *,
    standbys: int = 0,
    static: bool = False,
    transaction_timeout_s: int | None = None,
) -> Application:
    """An instance with its own state directory.

    ``transaction_timeout_s``: when brokers give up on a transaction, if not as by default.
    """
    cluster = None
    if transaction_timeout_s is not None:
        cluster = KafkaCluster(
            bootstrap,
            client_id=prefix,
            transaction_timeout_ms=1_000 * transaction_timeout_s,
            reader_group=prefix,
        )
    return Application(
        topology(prefix),
        application_id=prefix,
        bootstrap=bootstrap,
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=50),
        checkpoint_interval=timedelta(milliseconds=300),
        standby_replicas=standbys,
        static_membership=static,
        cluster=cluster,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("prefix")
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("standbys", type=int, nargs="?", default=0)
    parser.add_argument("--transaction-timeout-s", type=int)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    app = application(**vars(arguments))
    logger = logging.getLogger("counting_app")
    app.on_state_change(lambda _, state: logger.info("it is %s", state.value))
    app.run()
