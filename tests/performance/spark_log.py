"""The changelog that the readers of the benchmark read, and what its table has to be."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
from confluent_kafka import Producer

from logstate.contracts.partitioner import partition_of
from logstate.contracts.records import TopicPartition
from logstate.kafka.log_reader import log_bounds
from logstate.serdes import json_of
from tests.spark.changelog_writer import STRING, ApplicationLog

STORE = "customers"
#: records of one transaction: what an application writes with a commit
_PER_COMMIT = 10_000


class Customer(msgspec.Struct):
    """A row: what a service may keep of a customer."""

    customer: str
    orders: int
    total: float
    is_member: bool
    city: str


DDL = "customer string, orders bigint, total double, is_member boolean, city string"


class CustomerLog:
    """The log, written once: keys drawn evenly, transactions, lz4."""

    def __init__(
        self, bootstrap: str, application: str, *, records: int, keys: int, partitions: int
    ) -> None:
        self.bootstrap, self.application, self.records = bootstrap, application, records
        self._log = ApplicationLog(bootstrap, application, partitions)
        description = msgspec.json.decode(msgspec.json.encode(json_of(Customer).describe()))
        # As of an application that owns the partitioner, which a repartition topic makes sure of.
        self.topic = self._log.add_store(
            STORE, "timestamped_key_value", key=STRING, value=description, placed_by="murmur2"
        )
        #: key to the orders of its newest row
        self.newest: dict[str, int] = {}
        self._write(keys, partitions)
        logs = [TopicPartition(self.topic, n) for n in range(partitions)]
        bounds = log_bounds({"bootstrap.servers": bootstrap}, logs)
        rows = Counter(partition_of(key.encode(), partitions) for key in self.newest)
        for tp, bound in bounds.items():
            clocks = {f"rows:{STORE}": rows[tp.partition]}
            self._log.commit(1, {self.topic: bound.end}, partition=tp.partition, clocks=clocks)

    def _write(self, keys: int, partitions: int) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": f"{self.application}-load",
                "compression.type": "lz4",
                "linger.ms": 50,
                "batch.size": 1_000_000,
                "queue.buffering.max.messages": 2_000_000,
            }
        )
        producer.init_transactions(30)
        rng = random.Random(7)
        for start in range(0, self.records, _PER_COMMIT):
            producer.begin_transaction()
            for number in range(start, min(start + _PER_COMMIT, self.records)):
                key, value = self._record(number, rng, keys)
                producer.produce(
                    self.topic, value, key, partition=partition_of(key.encode(), partitions)
                )
                producer.poll(0)
            producer.commit_transaction(60)

    def _record(self, number: int, rng: random.Random, keys: int) -> tuple[str, bytes]:
        key = f"customer-{rng.randrange(keys)}"
        self.newest[key] = number
        total = round(rng.random() * 1_000, 2)
        row = Customer(key, number, total, number % 7 == 0, "Amsterdam")
        return key, msgspec.json.encode(row)

    def expected(self) -> dict[str, Any]:
        """Rows of the table, and the sum of their orders."""
        return {"rows": len(self.newest), "orders": sum(self.newest.values())}
