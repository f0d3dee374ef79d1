"""Orders with the customer they belong to, and what each country spends.

customers (table) ─────────────┐
orders ── key by customer ── + customer ─┬─ enriched-orders
                                         └─ group by country ── sum ── country-totals
"""

from __future__ import annotations

import msgspec

from logstate import StreamsBuilder, Topology


class Customer(msgspec.Struct, frozen=True):
    name: str
    country: str


class Order(msgspec.Struct, frozen=True):
    customer: str
    cents: int


class Enriched(msgspec.Struct, frozen=True):
    """An order of somebody we know, or of nobody."""

    customer: str
    country: str
    cents: int


def with_customer(order: Order, customer: Customer | None) -> Enriched:
    if customer is None:
        return Enriched(order.customer, "unknown", order.cents)
    return Enriched(customer.name, customer.country, order.cents)


def topology() -> Topology:
    builder = StreamsBuilder()
    customers = builder.table("customers", key=str, value=Customer, store="customers")
    orders = builder.stream("orders", key=str, value=Order)
    enriched = (
        orders.select_key(lambda order: order.customer, key=str)
        # Orders are keyed by order number: behind this topic they lie where their customer lies.
        .repartition(name="by-customer")
        .left_join(customers, with_customer)
    )
    enriched.to("enriched-orders", value=Enriched)
    (
        enriched.group_by(lambda order: order.country, name="by-country", key=str, value=Enriched)
        .aggregate(int, lambda total, order: total + order.cents, value=int, store="totals")
        .to_stream()
        .to("country-totals")
    )
    return builder.build()


if __name__ == "__main__":
    from examples.playground import play

    play(topology(), application_id="orders")
