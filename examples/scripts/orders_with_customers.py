# /// script
# requires-python = ">=3.11"
# dependencies = ["confluent-kafka", "logstate", "msgspec"]
# ///
"""Joins orders with the table of their customers, and adds up what each country spends.

    uv run orders_with_customers.py localhost:9092

customers (table) ──────┐
orders (by customer) ── left join ── group by country ── sum (store: spent-per-country)

An order is joined with the row that its customer has at that moment. A left join keeps the orders
of unknown customers.
"""

from __future__ import annotations

import argparse
import os

import msgspec
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from logstate import Application, StreamsBuilder, Topology

CUSTOMERS, ORDERS = "join-customers", "join-orders"


class Customer(msgspec.Struct, frozen=True):
    country: str


class Order(msgspec.Struct, frozen=True):
    cents: int


class Sale(msgspec.Struct, frozen=True):
    country: str
    cents: int


def sale(order: Order, customer: Customer | None) -> Sale:
    return Sale("unknown" if customer is None else customer.country, order.cents)


def topology() -> Topology:
    builder = StreamsBuilder()
    customers = builder.table(CUSTOMERS, key=str, value=Customer, store="customers")
    # Both topics have the customer as key and as many partitions: the rows of a customer and the
    # orders of this customer are in one task.
    sales = builder.stream(ORDERS, key=str, value=Order).left_join(customers, sale)
    by_country = sales.group_by(lambda sale: sale.country, name="by-country", key=str, value=Sale)
    by_country.aggregate(
        int, lambda spent, sale: spent + sale.cents, store="spent-per-country", value=int
    )
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
    create_topics(bootstrap, CUSTOMERS, ORDERS)
    # librdkafka's own default is another partitioner than that of Java clients and logstate.
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})

    def write(topic: str, key: str, value: object) -> None:
        producer.produce(topic, key=key, value=msgspec.json.encode(value))
        producer.flush()

    with Application(
        topology(), application_id="orders-with-customers", bootstrap=bootstrap, state_dir="state"
    ) as app:
        write(CUSTOMERS, "ada", Customer("Norway"))
        write(CUSTOMERS, "bob", Customer("Peru"))
        app.wait_until_caught_up()  # so that no order comes before its customer
        write(ORDERS, "ada", Order(250))
        write(ORDERS, "bob", Order(900))
        write(ORDERS, "eve", Order(75))
        app.wait_until_caught_up()
        write(CUSTOMERS, "ada", Customer("Chile"))  # ada moves
        app.wait_until_caught_up()
        write(ORDERS, "ada", Order(1_000))
        app.wait_until_caught_up()
        for country, row in sorted(app.store("spent-per-country", key=str, value=int).all()):
            print(f"{country}: {row.value} cents")


if __name__ == "__main__":
    main()
