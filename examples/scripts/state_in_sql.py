# /// script
# requires-python = ">=3.11"
# dependencies = ["confluent-kafka", "duckdb", "logstate[arrow]", "msgspec", "polars"]
# ///
"""Reads two stores at one commit into Polars, and joins them in SQL with DuckDB.

    uv run state_in_sql.py localhost:9092

products (table, store: products)
sales (by product) ── sum (store: sold)

The stores are read from their changelog topics: the application has ended by then.
"""

from __future__ import annotations

import argparse
import os

import duckdb
import msgspec
import polars
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import logstate

PRODUCTS, SALES = "sql-products", "sql-sales"


class Product(msgspec.Struct, frozen=True):
    name: str
    cents: int


def topology() -> logstate.Topology:
    builder = logstate.StreamsBuilder()
    builder.table(PRODUCTS, key=str, value=Product, store="products")
    sales = builder.stream(SALES, key=str, value=int).group_by_key()
    sales.reduce(lambda pieces, more: pieces + more, store="sold")
    return builder.build()


def create_topics(bootstrap: str, *names: str) -> None:
    """Topics that exist are left as they are."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for result in admin.create_topics([NewTopic(name, 3) for name in names]).values():
        try:
            result.result()
        except KafkaException as error:
            if error.args[0] != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "bootstrap", nargs="?", default=os.environ.get("LOGSTATE_BOOTSTRAP", "localhost:9092")
    )
    bootstrap = parser.parse_args().bootstrap
    create_topics(bootstrap, PRODUCTS, SALES)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for key, product in (("p-1", Product("tea", 250)), ("p-2", Product("rum", 1_900))):
        producer.produce(PRODUCTS, key=key, value=msgspec.json.encode(product))
    for key, pieces in (("p-1", 3), ("p-2", 1), ("p-1", 4)):
        producer.produce(SALES, key=key, value=pieces.to_bytes(8, "big"))
    producer.flush()
    with logstate.Application(
        topology(), application_id="state-in-sql", bootstrap=bootstrap, state_dir="state"
    ) as app:
        app.wait_until_caught_up()

    # One commit of each task, for both stores.
    cut = logstate.latest_cut(bootstrap, "state-in-sql")
    sold, products = (
        logstate.read("state-in-sql", store, bootstrap=bootstrap, cut=cut)
        for store in ("sold", "products")
    )
    print(polars.DataFrame(sold).select("key", "value").sort("key").rows())
    with duckdb.connect() as connection:
        connection.register("sold", sold.to_arrow())
        connection.register("products", products.to_arrow())
        earned = connection.sql(
            "SELECT products.value.name, sold.value * products.value.cents AS cents"
            " FROM sold JOIN products USING (key) ORDER BY cents"
        )
        print(earned.fetchall())


if __name__ == "__main__":
    main()
