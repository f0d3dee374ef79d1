"""The compose files, checked without a Docker engine: what they say, not whether they run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from logstate.local_broker.config import FOR_TESTS, ONE_NODE, SHORT_WAITS
from logstate.local_broker.jars import KAFKA_VERSION

ROOT = Path(__file__).resolve().parents[3]
FILES = ("compose.yaml", "compose.cluster.yaml", "compose.spark.yaml")
CLUSTER_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}")


def compose(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker" / name).read_text())
    return loaded


def services() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every service of every file, with what it extends from another file filled in."""
    for file in FILES:
        for name, service in compose(file)["services"].items():
            whole = service
            if extended := service.get("extends"):
                whole = compose(extended["file"])["services"][extended["service"]] | service
            yield file, name, whole


SERVICES = [pytest.param(*service, id=f"{service[0]}:{service[1]}") for service in services()]
BROKERS = [case for case in SERVICES if "broker" in str(case.values[1])]


def variable(setting: str) -> str:
    return "KAFKA_" + setting.upper().replace(".", "_")


def test_each_file_holds_the_services_it_is_for() -> None:
    assert set(compose("compose.yaml")["services"]) == {"broker"}
    assert set(compose("compose.cluster.yaml")["services"]) == {"broker-1", "broker-2", "broker-3"}
    assert set(compose("compose.spark.yaml")["services"]) == {
        "broker",
        "registry",
        "spark",
        "spark-worker",
    }


@pytest.mark.parametrize(("file", "name", "service"), SERVICES)
def test_every_image_is_pinned_to_a_full_version(
    file: str, name: str, service: dict[str, Any]
) -> None:
    _, _, tag = service["image"].partition(":")
    assert re.fullmatch(r"\d+\.\d+\.\d+", tag), service["image"]


@pytest.mark.parametrize(("file", "name", "service"), SERVICES)
def test_every_service_is_waited_for_by_a_health_check(
    file: str, name: str, service: dict[str, Any]
) -> None:
    check = service["healthcheck"]
    assert check["test"][0] == "CMD"
    assert int(check["retries"]) * int(check["interval"].rstrip("s")) >= 60


@pytest.mark.parametrize(("file", "name", "service"), SERVICES)
def test_every_published_port_is_on_loopback(file: str, name: str, service: dict[str, Any]) -> None:
    assert service["ports"]
    for port in service["ports"]:
        assert re.fullmatch(r"127\.0\.0\.1:(\d+|\$\{LOGSTATE_PORT:-9092\}):\d+", port), port


@pytest.mark.parametrize("file", FILES)
def test_no_two_services_of_a_file_publish_the_same_port(file: str) -> None:
    published = [
        port.rsplit(":", 1)[0]
        for owner, _, service in services()
        if owner == file
        for port in service["ports"]
    ]
    assert len(published) == len(set(published))


@pytest.mark.parametrize(("file", "name", "service"), BROKERS)
def test_a_broker_in_docker_is_the_local_broker_with_other_addresses(
    file: str, name: str, service: dict[str, Any]
) -> None:
    environment = service["environment"]
    assert service["image"] == f"apache/kafka:{KAFKA_VERSION}"
    for setting, value in (SHORT_WAITS | FOR_TESTS).items():
        assert environment[variable(setting)] == value, setting
    assert environment["KAFKA_PROCESS_ROLES"] == ONE_NODE["process.roles"]


@pytest.mark.parametrize(("file", "name", "service"), BROKERS)
def test_a_broker_advertises_the_port_it_publishes(
    file: str, name: str, service: dict[str, Any]
) -> None:
    (published,) = service["ports"]
    host_side, container_side = published.rsplit(":", 1)
    environment = service["environment"]

    assert f"HOST://{host_side}" in environment["KAFKA_ADVERTISED_LISTENERS"].split(",")
    assert f"HOST://:{container_side}" in environment["KAFKA_LISTENERS"].split(",")
    assert f"INTERNAL://{name}:19092" in environment["KAFKA_ADVERTISED_LISTENERS"].split(",")


@pytest.mark.parametrize(("file", "name", "service"), BROKERS)
def test_a_broker_is_a_voter_under_its_own_number(
    file: str, name: str, service: dict[str, Any]
) -> None:
    environment = service["environment"]
    voters = environment["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(",")

    assert f"{environment['KAFKA_NODE_ID']}@{name}:9093" in voters
    assert CLUSTER_ID.fullmatch(environment["CLUSTER_ID"])


def test_one_broker_of_the_cluster_may_be_killed() -> None:
    for service in compose("compose.cluster.yaml")["services"].values():
        environment = service["environment"]
        for setting in ONE_NODE:
            if setting.endswith("replication.factor"):
                assert environment[variable(setting)] == "3"
            if setting.endswith("min.isr"):
                assert environment[variable(setting)] == "2"
        assert environment["KAFKA_MIN_INSYNC_REPLICAS"] == "2"


def test_the_spark_image_carries_the_spark_that_is_tested() -> None:
    constraints = (ROOT / ".ci" / "constraints.txt").read_text()
    spark = compose("compose.spark.yaml")["services"]["spark"]
    version = spark["image"].partition(":")[2]

    assert f"\npyspark=={version}\n" in constraints
    dockerfile = ROOT / spark["build"]["dockerfile"]
    assert "--constraint /src/constraints.txt" in dockerfile.read_text()


def test_the_spark_image_copies_only_what_is_there() -> None:
    for line in (ROOT / "docker" / "spark.Dockerfile").read_text().splitlines():
        if line.startswith("COPY"):
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), source
