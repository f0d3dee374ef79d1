"""A case of the conformance vectors as an application, in a process of its own where it is killed.

Topics carry the prefix of one test; it is the application id too. Small fetches make an instance
process its input in many steps, so that a kill finds it in the middle.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from logstate.app import Application
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


def application(bootstrap: str, name: str, prefix: str, state_dir: Path) -> Application:
    """An instance."""
    return Application(
        build_topology(case_of(name, prefix)),
        application_id=prefix,
        bootstrap=bootstrap,
        state_dir=state_dir,
        commit_interval=timedelta(milliseconds=30),
        checkpoint_interval=timedelta(milliseconds=100),
        kafka={"max.partition.fetch.bytes": 4_096},
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("name")
    parser.add_argument("prefix")
    parser.add_argument("state_dir", type=Path)
    arguments = parser.parse_args()
    application(arguments.bootstrap, arguments.name, arguments.prefix, arguments.state_dir).run()
