"""A folder of vectors, run as a whole: every run of every case counts, none is ever skipped."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .compare import Difference, graph_differences, run_differences
from .naming import graph_of
from .partitioner import partitioner_differences
from .replay import replay
from .settings import has_cache
from .steps import build_topology
from .vary import VARIATIONS, Variation, variations_of, varied_differences
from .vectors import MURMUR2, Case, Run, case_name, read_vector, vector_files


@dataclass(frozen=True)
class Verdict:
    """How one run of a case went; ``problems`` is empty where it passed."""

    case: str
    run: str
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.problems


def folder_verdicts(
    folder: Path, *, only: str | None, strict: bool, varied: bool, jobs: int = 1
) -> Iterator[list[Verdict]]:
    """The verdicts of each file of a folder, file by file, from so many processes."""
    paths = [path for path in vector_files(folder) if only is None or case_name(path) == only]
    verdicts_of = partial(file_verdicts, strict=strict, varied=varied)
    jobs = min(jobs, len(paths))
    if jobs <= 1:
        yield from map(verdicts_of, paths)
        return
    context = multiprocessing.get_context("spawn")  # RocksDB does not survive a fork
    with ProcessPoolExecutor(jobs, mp_context=context) as processes:
        yield from processes.map(verdicts_of, paths)


def file_verdicts(path: Path, *, strict: bool = False, varied: bool = False) -> list[Verdict]:
    """The verdicts of one file: of each run, or of all the partitioner's vectors as one.

    A file that is no vector file fails as one run.
    """
    try:
        data = read_vector(path)
        if case_name(path) == MURMUR2:
            return [Verdict(MURMUR2, "vectors", _texts(partitioner_differences(data)))]
        case = Case.of(data)
    except (ValueError, LookupError, TypeError, AttributeError) as failure:
        problem = _failure("the file is no vector file", failure)
        return [Verdict(case_name(path), "file", (problem,))]
    if varied and has_cache(case.config):
        return []  # when it commits decides what it sends
    return varied_verdicts(case) if varied else case_verdicts(case, strict=strict)


def case_verdicts(case: Case, *, strict: bool = False) -> list[Verdict]:
    """The verdicts of the runs. A wrong graph, or one that cannot be built, fails them all."""
    try:
        graph = graph_of(case, build_topology(case))
        shared = _texts(graph_differences(case, graph))
    except Exception as failure:  # noqa: BLE001 - whatever it is, it is the verdict
        shared = (_failure("the topology cannot be built", failure),)
        return [Verdict(case.name, f"seed {run.seed}", shared) for run in case.runs]
    return [
        Verdict(case.name, f"seed {run.seed}", shared + _run_problems(case, index, strict))
        for index, run in enumerate(case.runs)
    ]


def varied_verdicts(case: Case, only: Sequence[Variation] = VARIATIONS) -> list[Verdict]:
    """The verdicts of every run under every variation."""
    try:
        possible = variations_of(build_topology(case))
        variations = [variation for variation in only if variation in possible]
    except Exception as failure:  # noqa: BLE001 - likewise
        problem = _failure("the topology cannot be built", failure)
        return [Verdict(case.name, f"seed {run.seed}", (problem,)) for run in case.runs]
    return [
        Verdict(case.name, f"seed {run.seed}, {variation}", _varied_problems(case, run, variation))
        for run in case.runs
        for variation in variations
    ]


def _varied_problems(case: Case, run: Run, variation: Variation) -> tuple[str, ...]:
    try:
        return _texts(varied_differences(case, build_topology(case), run, variation))
    except Exception as failure:  # noqa: BLE001 - likewise
        return (_failure("the run broke off", failure),)


def _run_problems(case: Case, index: int, strict: bool) -> tuple[str, ...]:
    expected = case.runs[index]
    try:
        # A fresh topology for every run: nothing of an earlier one may decide a result.
        actual = replay(case, build_topology(case), expected)
    except Exception as failure:  # noqa: BLE001 - likewise
        return (_failure("the run broke off", failure),)
    return _texts(run_differences(case, expected, actual, strict=strict))


def _texts(differences: Iterator[Difference]) -> tuple[str, ...]:
    return tuple(str(difference) for difference in differences)


def _failure(what: str, failure: Exception) -> str:
    frame = traceback.extract_tb(failure.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"{what}: {type(failure).__name__}: {failure} ({where})"
