"""``logstate new``: write the files of a service, with a test of them."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from logstate.cli.shared.printing import fail, print_text
from logstate.contracts import setting_rules as rules
from logstate.contracts.errors import check

_SERVICE = '''\
"""Adds up what each customer of NAME has spent."""

import logging
import os

import msgspec
from logstate import Application, Serving, StreamsBuilder


class Order(msgspec.Struct):
    customer: str
    cents: int


builder = StreamsBuilder()
(
    builder.stream("orders", key=str, value=Order)
    .group_by(lambda order: order.customer, name="by-customer", key=str)
    .aggregate(int, lambda cents, order: cents + order.cents, store="spent", value=int)
    .to_stream()
    .to("spent-per-customer", value=int)
)
topology = builder.build()


def application() -> Application:
    """The instance that the environment describes."""
    host = os.environ.get("ADVERTISED_HOST")  # by which other machines reach this one
    return Application(
        topology,
        application_id=os.environ.get("LOGSTATE_APPLICATION", "NAME"),
        bootstrap=os.environ.get("LOGSTATE_BOOTSTRAP", "localhost:9092"),
        state_dir=os.environ.get("STATE_DIR", "state"),
        serve=Serving(
            "0.0.0.0:8080" if host else "127.0.0.1:8080",
            advertised=f"http://{host}:8080" if host else "",
            token=os.environ.get("QUERY_TOKEN", ""),
        ),
    )


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    application().run()  # until SIGTERM, which commits what was processed
'''
_TEST = r'''"""The topology in memory, without a broker, and the files that run it in containers."""

import re
from pathlib import Path

import pytest
from logstate import TopologyTestDriver
from service import Order, application, topology

HERE = Path(__file__).parent


def test_orders_are_added_up_per_customer() -> None:
    with TopologyTestDriver(topology) as driver:
        driver.pipe("orders", "o-1", Order("ada", 250))
        driver.pipe("orders", "o-2", Order("bob", 900))
        driver.pipe("orders", "o-3", Order("ada", 125))
        spent = driver.read("spent-per-customer", value=int)
    assert spent == [("ada", 250), ("bob", 900), ("ada", 375)]


def test_the_container_has_settings_that_are_accepted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compose = (HERE / "compose.yaml").read_text()
    for name, value in re.findall(r"^    ([A-Z_]+): (\S+)$", compose, re.MULTILINE):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STATE_DIR", str(tmp_path))
    app = application()  # raises for settings that do not fit together
    assert app.application_id == "NAME"
    assert "topics create service:topology --with-inputs" in compose
'''
_DOCKERFILE = """\
FROM python:3.13-slim
WORKDIR /service
COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt
COPY service.py .
RUN useradd --system service && mkdir /state && chown service /state
USER service
# Local state: keep it over restarts, or it is restored from the changelogs.
VOLUME /state
CMD ["python", "service.py"]
"""
_COMPOSE = """\
# docker compose up --build --wait
# docker compose run --rm topics logstate produce orders o-1 '{"customer": "ada", "cents": 250}' \\
#     --topology service:topology
# curl -H 'Authorization: Bearer change-me' localhost:8080/stores/spent/ada
name: PROJECT

x-service: &service
  build: .
  environment: &environment
    LOGSTATE_APPLICATION: NAME
    LOGSTATE_BOOTSTRAP: broker:9092
    STATE_DIR: /state
    ADVERTISED_HOST: service
    QUERY_TOKEN: change-me

services:
  broker:
    image: apache/kafka:4.3.0
    environment:
      KAFKA_NODE_ID: "1"
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@broker:9093
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_LISTENERS: CONTROLLER://:9093,PLAINTEXT://:9092
      KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://broker:9092
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: "1"
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: "1"
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: "1"
    healthcheck:
      test: /opt/kafka/bin/kafka-topics.sh --bootstrap-server broker:9092 --list
      interval: 5s
      timeout: 20s
      retries: 12
  topics:
    <<: *service
    command: logstate topics create service:topology --with-inputs --serve
    depends_on:
      broker:
        condition: service_healthy
  service:
    <<: *service
    ports:
      - "127.0.0.1:8080:8080"
    volumes:
      - state:/state
    depends_on:
      topics:
        condition: service_completed_successfully

volumes:
  state:
"""


def new(
    name: Annotated[str, typer.Argument(help="Of the folder, and the id of its application.")],
) -> None:
    """Write a service, its test, a Dockerfile and a compose file to a folder.

    Example: `logstate new shop && cd shop && python -m pytest`. The test needs no broker; the
    compose file starts one, creates the topics and runs the service.
    """
    check(rules.application_id("NAME", name))
    folder = Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        fail(f"{name!r} exists and is not an empty folder: choose another name")
    folder.mkdir(exist_ok=True)
    for file, text in files(name).items():
        (folder / file).write_text(text, encoding="utf-8")
    print_text(
        f"{', '.join(files(name))} are in {name}. Next:\n\n    cd {name}\n"
        "    python -m pytest               # the topology, without a broker\n"
        "    docker compose up --build      # with a broker; or `logstate broker start`"
    )


def files(name: str) -> dict[str, str]:
    """Return the files by their names."""
    # Compose takes fewer characters than Kafka.
    project = re.sub(r"[^a-z0-9_-]", "-", name.lower()).lstrip("-_") or "service"
    return {
        "service.py": _SERVICE.replace("NAME", name),
        "test_service.py": _TEST.replace("NAME", name),
        "Dockerfile": _DOCKERFILE,
        "compose.yaml": _COMPOSE.replace("NAME", name).replace("PROJECT", project),
        "requirements.txt": f"logstate[cli,http,metrics]=={version('logstate')}\n",
    }
