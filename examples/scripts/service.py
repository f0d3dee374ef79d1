# /// script
# requires-python = ">=3.11"
# dependencies = ["confluent-kafka", "fastapi", "httpx", "logstate[http]", "uvicorn"]
# ///
"""Answers web requests from the state: FastAPI around an application.

    uv run service.py localhost:9092                 asks the service three questions, and ends
    uv run service.py localhost:9092 --port 8000     serves until Ctrl-C

orders ── group by key ── sum (store: spent)
                                      │
GET /spent/ada ───────────────────────┤ a path of your own
GET /state/stores/spent/ada ──────────┘ a path of the library, with OpenAPI at /docs
"""

from __future__ import annotations

import argparse
import os
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import uvicorn
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from fastapi import FastAPI, HTTPException

from logstate import Application, Serving, StreamsBuilder, Topology

ORDERS = "service-orders"


def topology() -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream(ORDERS, key=str, value=int).group_by_key()
    orders.reduce(lambda spent, cents: spent + cents, store="spent")
    return builder.build()


def service(app: Application) -> FastAPI:
    """The application starts and ends with the service."""

    @asynccontextmanager
    async def lifespan(_service: FastAPI) -> AsyncIterator[None]:
        async with app:
            yield

    web = FastAPI(lifespan=lifespan)
    app.mount_in(web, "/state")

    # Of all instances: another one may have the partition of this customer.
    @web.get("/spent/{customer}")
    async def spent(customer: str) -> dict[str, int]:
        row = await app.async_remote_store("spent", key=str, value=int).get(customer)
        if row is None:
            raise HTTPException(404, f"{customer} has no orders")
        return {"cents": row.value}

    return web


def create_topic(bootstrap: str, name: str) -> None:
    """A topic that exists is left as it is."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        admin.create_topics([NewTopic(name, num_partitions=3)])[name].result()
    except KafkaException as error:
        if error.args[0] != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def ask(app: Application, address: str) -> None:
    app.wait_until_caught_up()
    with httpx.Client(base_url=address, trust_env=False, timeout=30) as client:
        for path in ("/spent/ada", "/spent/eve"):
            answer = client.get(path)
            print(f"GET {path}: {answer.status_code} {answer.text}")
        row = client.get("/state/stores/spent/bob").raise_for_status().json()["row"]
        print(f"GET /state/stores/spent/bob: a row with the value {row['value']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "bootstrap", nargs="?", default=os.environ.get("LOGSTATE_BOOTSTRAP", "localhost:9092")
    )
    parser.add_argument("--port", type=int, default=0, help="serve until Ctrl-C")
    given = parser.parse_args()
    create_topic(given.bootstrap, ORDERS)
    producer = Producer({"bootstrap.servers": given.bootstrap, "partitioner": "murmur2_random"})
    for customer, cents in (("ada", 250), ("bob", 900), ("ada", 125)):
        producer.produce(ORDERS, key=customer, value=cents.to_bytes(8, "big"))
    producer.flush()
    with socket.create_server(("127.0.0.1", given.port)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        app = Application(
            topology(),
            application_id="service",
            bootstrap=given.bootstrap,
            state_dir="state",
            serve=Serving(advertised=f"{address}/state"),
        )
        server = uvicorn.Server(uvicorn.Config(service(app), log_level="warning"))
        if given.port:
            print(f"{address}/docs")
            server.run(sockets=[listening])
            return
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            ask(app, address)
        finally:
            server.should_exit = True
            thread.join()


if __name__ == "__main__":
    main()
