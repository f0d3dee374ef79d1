"""A case of the conformance vectors as an application, in a process of its own where it is killed.

Topics carry the prefix of one test; it is the application id too. Small fetches make an instance
process its input in many steps. An instance with a doom dies by SIGKILL where it would commit next
once that file is there: everything of the transaction is on the log, and none of it counts.
"""

from __future__ import annotations

import argparse
import os
import signal
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from logstate.app.application import Application
from logstate.contracts.clients import TransactionalProducer
from logstate.kafka.cluster import KafkaCluster
from tests.conformance.steps import build_topology
from tests.conformance.vectors import Case, read_vector

VECTORS = Path(__file__).resolve().parents[1] / "conformance" / "vectors"


def case_of(name: str, prefix: str) -> Case:
    """The recorded case, on topics of its own."""
    case = Case.of(read_vector(VECTORS / f"{name}.json.gz"))
    return replace(
        case,
        config={**case.config, "application.id": prefix},
        steps=[_renamed(step, prefix) for step in case.steps],
        inputs={f"{prefix}-{topic}": types for topic, types in case.inputs.items()},
        outputs={f"{prefix}-{topic}": types for topic, types in case.outputs.items()},
    )


def _renamed(step: dict[str, Any], prefix: str) -> dict[str, Any]:
    renamed = dict(step)
    if "topic" in step:
        renamed["topic"] = f"{prefix}-{step['topic']}"
    if "topics" in step:
        renamed["topics"] = [f"{prefix}-{topic}" for topic in step["topics"]]
    return renamed


class DoomedCluster(KafkaCluster):
    """A cluster whose producers end the process instead of committing, once a file is there."""

    def __init__(self, bootstrap: str, config: dict[str, Any], doom: Path) -> None:
        super().__init__(bootstrap, config)
        self._doom = doom

    def transactional_producer(self, transactional_id: str) -> Any:
        return _DoomedProducer(super().transactional_producer(transactional_id), self._doom)


class _DoomedProducer:
    def __init__(self, producer: TransactionalProducer, doom: Path) -> None:
        self._producer = producer
        self._doom = doom

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit(self) -> None:
        if self._doom.exists():
            os.kill(os.getpid(), signal.SIGKILL)
        self._producer.commit()


def application(
    bootstrap: str, name: str, prefix: str, state_dir: Path, doom: Path | None = None
) -> Application:
    """An instance."""
    config = {"max.partition.fetch.bytes": 4_096}
    return Application(
        build_topology(case_of(name, prefix)),
        application_id=prefix,
        bootstrap=bootstrap,
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=30),
        checkpoint_interval=timedelta(milliseconds=100),
        kafka=config,
        cluster=None if doom is None else DoomedCluster(bootstrap, config, doom),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("name")
    parser.add_argument("prefix")
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("doom", type=Path)
    application(**vars(parser.parse_args())).run()
