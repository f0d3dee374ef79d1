"""Fixtures and rules for every tier of tests.

Tiers are folders: everything in tests/broker, tests/spark and tests/demo carries the marker of the
same name, whatever its file says; the rest is the fast tier. A run goes through them in the order
fast, broker, spark, demo, so that the cheap failures come first. With several processes
(`-n auto`), half of them begin with the tests that mostly wait, for a broker or a Spark session,
and the others with those that compute; whoever has no more of his kind helps the others.

Property tests (marker `hypothesis`) try forty examples, the same ones each time, so that a run
fails for what was changed and not by chance; `./dev test --fast` tries the first ten, and
`--hypothesis-profile=long` 10,000 new ones. `./dev test --coverage` does not measure them, nor what
else goes through the same lines many times: the figure is the same, and they take up to four times
as long when they are measured.

A broker comes from, in this order: the environment variable LOGSTATE_BOOTSTRAP, a Docker engine
through docker/compose.yaml, a JVM on this machine. Without any of them a test of the broker tier
fails. It is never skipped, because a skipped test reads like a passed one.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from logstate.local_broker.broker import LocalBroker
from logstate.local_broker.probe import broker_count
from tests.examples_tried import IN_THE_SUITE

ROOT = Path(__file__).resolve().parent.parent
TIERS = ("broker", "spark", "demo")
#: tests that read the syntax of every file
OF_EVERY_FILE = (
    *("test_tidy.py", "test_imports.py", "test_packages.py"),
    "unit/logstate/kafka/test_forbidden_calls.py",
)
#: tests that go through the same lines many times, or through none
REPETITIVE = frozenset(
    ROOT / "tests" / path
    for path in (
        *("broker/test_conformance_on_broker.py", "broker/test_restore_fixtures.py"),
        *(
            "unit/changelog/rows/test_deferred_values.py",
            "unit/changelog/test_retention_steady_state.py",
            "unit/changelog/test_cached_rows.py",
        ),
        *(
            "campaigns/chaos",
            "conformance",
            "campaigns/differential",
            "campaigns/simulation",
            *OF_EVERY_FILE,
        ),
        "unit/logstate/worker/test_snapshots.py",
        *("unit/changelog/stores/test_readers.py", "unit/logstate/queries/test_query_cost.py"),
        "unit/logstate/restore/test_committed_offsets.py",
        *("unit/topology/dsl/test_documentation.py", "unit/topology/graph/test_stability.py"),
        "unit/topology/processor/test_scan_cost.py",
        *(
            "unit/logstate/app/instance/test_static_members.py",
            "campaigns/upgrades/test_on_the_fake.py",
        ),
        "unit/topology/operators/aggregates/test_windows_survive_a_crash.py",
        "unit/topology/operators/joins/test_joins_survive_a_crash.py",
    )
)
#: where Linux has files that are no more than memory, and what a whole run may take of it
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 6 << 30

# How long an example takes is the machine's affair, and no failure.
hypothesis.settings.register_profile(
    "suite", deadline=None, derandomize=True, database=None, max_examples=IN_THE_SUITE
)
hypothesis.settings.load_profile("suite")  # an option of the command line comes later, and wins
hypothesis.settings.register_profile(
    "fast", hypothesis.settings.get_profile("suite"), max_examples=10
)
hypothesis.settings.register_profile(
    "long",
    max_examples=10_000,
    deadline=None,
    derandomize=False,
    suppress_health_check=list(hypothesis.HealthCheck),
)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    gc.disable()  # nothing that is imported becomes garbage
    # Importing all tests goes through the same lines in every process: one measures it.
    measured = _coverage_of_worker(session.config)
    if measured is None or session.config.workerinput["workerid"] == "gw0":
        return (yield)
    measured.pause()
    try:
        return (yield)
    finally:
        measured.resume()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tiers = {item: _tier(item) for item in items}
    for item, tier in tiers.items():
        if tier is not None:
            item.add_marker(tier)
        if _is_property(item) or _is_repetitive(item.path):
            item.add_marker("no_cover")
    order = (None, *TIERS)
    items.sort(key=lambda item: order.index(tiers[item]))


def pytest_collection_finish() -> None:
    # Five hundred files of tests stay: the collector need not look at them again and again.
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # or libraries that look at the end tell of leaks


def _is_property(item: pytest.Item) -> bool:
    # Not by its marker: Hypothesis may set that later.
    return hypothesis.is_hypothesis_test(getattr(item, "obj", None))


@cache
def _is_repetitive(path: Path) -> bool:
    return not REPETITIVE.isdisjoint((path, *path.parents))


def _tier(item: pytest.Item) -> str | None:
    folder = _folder(item.path)
    if folder in TIERS:
        return folder
    return next((tier for tier in TIERS if item.get_closest_marker(tier)), None)


@cache
def _folder(path: Path) -> str:
    return path.relative_to(ROOT).parts[1] if path.is_relative_to(ROOT) else ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--in-memory",
        action="store_true",
        help="keep temporary files in memory, where there is the room",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A JVM that lives for seconds gains nothing from the optimising compiler, and starts in half
    # the time without it. It would keep 48 MB of compiled code then, which is not enough for Spark:
    # methods would be compiled again and again.
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
    os.environ.setdefault("JAVA_TOOL_OPTIONS", options)
    is_first = not hasattr(config, "workerinput")
    if is_first and config.getoption("--in-memory") and (folder := folder_in_memory()):
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)  # of all that it starts, too
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    if is_first:
        config.pluginmanager.register(_ToldAtOnce(config))
    if (measured := _coverage_of_worker(config)) is not None:
        # It is started twice, and the first one, which nobody reads, goes on wherever the second
        # pauses: what is not to be measured would be, and takes four times as long then.
        measured.cov.stop()


class _ToldAtOnce:
    """A line for a failed test when it fails; the summary comes when a long run has ended."""

    def __init__(self, config: pytest.Config) -> None:
        self._plugins = config.pluginmanager

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._plugins.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = "" if crash is None else crash.message.partition("\n")[0]
            terminal.write_line(f"\nfailed {report.nodeid}: {why}", flush=True)


def _coverage_of_worker(config: pytest.Config) -> Any:
    """What measures a process of several; None in the first one, and where nothing is measured."""
    plugin = config.pluginmanager.getplugin("_cov") if hasattr(config, "workerinput") else None
    return plugin and plugin.cov_controller


def folder_in_memory(memory: Path = MEMORY) -> Path | None:
    """A folder of this process; None where the machine has no such place, or too little of it.

    Thousands of small databases are made and deleted. A disk is asked each time to have written
    them, and a busy one answers late. No test loses the machine, so none needs that.
    """
    if not memory.is_dir() or shutil.disk_usage(memory).free < MEMORY_BYTES_MIN:
        return None
    for left in memory.glob("logstate-tests-*"):  # of a run that was killed
        if not Path("/proc", left.name.rpartition("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = memory / f"logstate-tests-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return max(4, os.cpu_count() or 1)


class TwoQueues(LoadScopeScheduling):
    """Gives half of the processes what waits and the others what computes, while there is both.

    What shares something dear stays together: a file of tests its brokers, all tests of Spark their
    session, those of the page their browser, some house rules the syntax of every file, the wheel
    and the site their one build, the tests of types one run of each type checker. A broker for all
    files is each process's own.
    """

    #: whose tests mostly wait; the longest first, lest one is left alone at the end
    WAITING = (
        *("spark", "demo", "chaos", "browser", "broker"),
        *(
            "logstate/http",
            "logstate/app/instance",
            "upgrades",
            "log_conformance",
            "restore_fixtures",
        ),
        *("logstate/directory", "logstate/restore", "logstate/worker/test_planned_topics.py"),
    )
    TOGETHER = ("spark", "browser", "test_site.py", "test_wheel.py")
    #: files with something dear for all of their tests
    WHOLE_FILES = (
        *("unit/topology/dsl/test_typing.py", "test_source_archive.py"),
        *("demo/test_app.py", "demo/test_reference.py"),
    )

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._waiting: list[str] | None = None

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        folder = Path(path).parts[1]
        if folder in self.TOGETHER:
            return f"tests/{folder}"
        file = path.removeprefix("tests/")
        if file in OF_EVERY_FILE:
            return "tests/every file"
        return path if folder == "broker" or file in self.WHOLE_FILES else nodeid

    def _assign_work_unit(self, node: WorkerController) -> None:
        if self._waiting is None:
            waiting = [scope for scope in self.workqueue if self._rank(scope) is not None]
            self._waiting = sorted(waiting, key=lambda scope: self._rank(scope) or 0)
        takes_waiting = int(node.gateway.id.removeprefix("gw")) % 2 == 0
        if takes_waiting and self._waiting:
            self.workqueue.move_to_end(self._waiting.pop(0), last=False)
        elif self._waiting:
            others = set(self._waiting)
            first = next((scope for scope in self.workqueue if scope not in others), None)
            self.workqueue.move_to_end(first or self._waiting.pop(0), last=False)
        super()._assign_work_unit(node)

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        super().mark_test_complete(node, item_index, duration)
        # What is done would be counted again after every test of thousands.
        work = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(work[scope].values()):
            del work[scope]

    def _rank(self, scope: str) -> int | None:
        path = scope.removeprefix("tests/").partition("::")[0]
        return next(
            (rank for rank, one in enumerate(self.WAITING) if f"{path}/".startswith(f"{one}/")),
            None,
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> TwoQueues:
    return TwoQueues(config, log)


# --- brokers --------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def docker_compose_file() -> str:
    return str(ROOT / "docker" / "compose.yaml")


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a broker for the whole run of this process."""
    if given := os.environ.get("LOGSTATE_BOOTSTRAP"):
        if broker_count(given) == 0:
            pytest.fail(f"LOGSTATE_BOOTSTRAP names {given}, and no broker answers there", False)
        yield given
    elif _docker_engine_runs():
        services = request.getfixturevalue("docker_services")
        host = request.getfixturevalue("docker_ip")
        address = f"{host}:{services.port_for('broker', 9092)}"
        services.wait_until_responsive(lambda: broker_count(address) > 0, timeout=90, pause=0.5)
        yield address
    else:
        # Cleaners look for work once a second, so that what they erase is erased within a test.
        eager = {"log.cleaner.backoff.ms": "1000"}
        with LocalBroker.start(heap="768m", properties=eager) as broker:
            yield broker.bootstrap


def _docker_engine_runs() -> bool:
    if shutil.which("docker") is None:
        return False
    try:
        answer = subprocess.run(["docker", "info"], capture_output=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return False
    return answer.returncode == 0


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Makes names of topics and applications that no other test or run uses."""
    return lambda prefix: f"{prefix}-{uuid.uuid4().hex[:10]}"
