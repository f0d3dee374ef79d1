"""Vector files: one topology each, with what Kafka Streams produced for it on seeded inputs.

A file is plain JSON (``<case>.json``) or gzip (``<case>.json.gz``). ``murmur2.json`` is the one
file of another kind: it holds vectors of the partitioner. Nothing is ever skipped: a folder that is
missing or holds no vector is an error, and so is a file that does not parse.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MURMUR2 = "murmur2"


@dataclass(frozen=True)
class Run:
    """One seeded input and its result, as recorded."""

    seed: int
    events: list[dict[str, Any]]
    output: list[dict[str, Any]]
    #: None: not recorded
    stores: dict[str, dict[str, Any]] | None
    dropped: list[list[int]]
    changelog: dict[str, list[list[Any]]]
    internal: dict[str, list[list[Any]]]
    error: dict[str, Any] | None

    @classmethod
    def of(cls, data: dict[str, Any]) -> Run:
        return cls(
            seed=data["seed"],
            events=data["events"],
            output=data["output"],
            stores=data.get("stores"),
            dropped=data["dropped"],
            changelog=data["changelog"],
            internal=data["internal"],
            error=data.get("error"),
        )


@dataclass(frozen=True)
class Case:
    """A recorded topology and its runs."""

    name: str
    config: dict[str, Any]
    steps: list[dict[str, Any]]
    inputs: dict[str, dict[str, Any]]
    outputs: dict[str, dict[str, Any]]
    describe: str
    #: None: not recorded
    names: dict[str, Any] | None
    runs: list[Run]

    @classmethod
    def of(cls, data: dict[str, Any]) -> Case:
        return cls(
            name=data["case"],
            config=data["config"],
            steps=data["topology"],
            inputs=data["inputs"],
            outputs=data["outputs"],
            describe=data["describe"],
            names=data.get("names"),
            runs=[Run.of(run) for run in data["runs"]],
        )


def vector_files(folder: Path) -> list[Path]:
    """The vector files of a folder, by name. Raises ``FileNotFoundError`` when there are none."""
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}: nothing was compared")
    files = sorted([*folder.glob("*.json"), *folder.glob("*.json.gz")], key=case_name)
    if not files:
        raise FileNotFoundError(f"{folder} holds no *.json or *.json.gz: nothing was compared")
    return files


def case_name(path: Path) -> str:
    """``a-case`` for ``a-case.json`` and ``a-case.json.gz``."""
    return path.name.removesuffix(".gz").removesuffix(".json")


def read_vector(path: Path) -> dict[str, Any]:
    """The JSON object in a vector file."""
    raw = path.read_bytes()
    data = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    if not isinstance(data, dict):
        raise ValueError(f"{path}: a vector file holds one JSON object")
    return data


def read_cases(folder: Path) -> Iterator[Case]:
    """Every case of a folder but the partitioner's vectors."""
    for path in vector_files(folder):
        if case_name(path) != MURMUR2:
            yield Case.of(read_vector(path))
