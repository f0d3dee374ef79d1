"""Fixtures and rules for every tier of tests.

Tiers are folders: everything in tests/broker, tests/spark and tests/demo carries the marker of the
same name, whatever its file says; the rest is the fast tier. A run goes through them in the order
fast, broker, spark, demo, so that the cheap failures come first.

Property tests (marker `hypothesis`) try a few examples; with `--hypothesis-profile=long` 10,000.

A broker comes from, in this order: the environment variable LOGSTATE_BOOTSTRAP, a Docker engine
through docker/compose.yaml, a JVM on this machine. Without any of them a test of the broker tier
fails. It is never skipped, because a skipped test reads like a passed one.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from logstate.local_broker.broker import LocalBroker
from logstate.local_broker.probe import broker_count

ROOT = Path(__file__).resolve().parent.parent
TIERS = ("broker", "spark", "demo")

# How long an example takes is the machine's affair, and no failure.
hypothesis.settings.register_profile("fast", deadline=None)
hypothesis.settings.load_profile("fast")  # an option of the command line comes later, and wins
hypothesis.settings.register_profile(
    "long", max_examples=10_000, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if (tier := _tier(item)) is not None:
            item.add_marker(tier)
    order = (None, *TIERS)
    items.sort(key=lambda item: order.index(_tier(item)))


def _tier(item: pytest.Item) -> str | None:
    folder = item.path.relative_to(ROOT).parts[1] if item.path.is_relative_to(ROOT) else ""
    if folder in TIERS:
        return folder
    return next((tier for tier in TIERS if item.get_closest_marker(tier)), None)


# --- brokers --------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def docker_compose_file() -> str:
    return str(ROOT / "docker" / "compose.yaml")


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a broker for the whole run."""
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
        with LocalBroker.start(heap="768m") as broker:
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


# --- coverage -------------------------------------------------------------------------------------


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Report coverage above pytest's last line; the whole suite must reach the ratchet.

    `./dev test` runs pytest below `coverage run`; without it there is nothing to report.
    """
    measured = _coverage_percent()
    if measured is None:
        return
    percent, wanted = measured
    terminalreporter.section("coverage")
    terminalreporter.write_line(f"{percent:.1f} % of lines and branches (ratchet: {wanted:g} %)")
    whole_suite = (
        not config.option.markexpr
        and not config.option.keyword
        and (config.args_source is not pytest.Config.ArgsSource.ARGS)
    )
    if whole_suite and percent < wanted:
        terminalreporter.write_line(
            f"FAILED: coverage fell below {wanted:g} %: test what is new, or delete what is dead",
            red=True,
        )
        assert terminalreporter._session is not None
        terminalreporter._session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _coverage_percent() -> tuple[float, float] | None:
    try:
        from coverage import Coverage
    except ImportError:
        return None
    coverage = Coverage.current()
    if coverage is None:
        return None
    coverage.stop()
    coverage.save()
    percent = coverage.report(file=io.StringIO())
    wanted = coverage.get_option("report:fail_under")
    assert isinstance(wanted, int | float)
    return percent, wanted
