"""Checked by mypy and pyright in test_typing.py, never run: each marked line has an error."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import assert_type

from logstate import (
    Aggregates,
    Application,
    Collect,
    Count,
    KStream,
    KTable,
    Mean,
    Processor,
    Record,
    StreamsBuilder,
    Sum,
    TopN,
    TumblingWindows,
    ValueAndTimestamp,
    Windowed,
    int64,
    key_value_store,
    window_store,
)


@dataclass
class Order:
    customer: str
    cents: int


@dataclass
class Invoice:
    cents: int


SPEND = key_value_store("spend", key=str, value=int)
HOURS = window_store("hours", str, int, size=timedelta(hours=1), retention=timedelta(days=1))
HOUR = TumblingWindows(size=timedelta(hours=1))


def customer_of(order: Order) -> str:
    return order.customer


def invoice_of(order: Order) -> Invoice:
    return Invoice(order.cents)


class Spending(Processor[str, Order, str, int]):
    def process(self, record: Record[str, Order]) -> None:
        store = self.context.store(SPEND)
        store.put(record.key, record.value.customer)  # error: a store's value
        self.context.forward(record.with_value(record.value.customer))  # error: what is forwarded
        store.put(record.key, record.value.cents)
        self.context.forward(record.with_value(record.value.cents))


def eight_errors(orders: KStream[str, Order], names: KTable[str, str], app: Application) -> None:
    orders.map_values(lambda order: order.customer, value=int)  # error: the result of a mapper
    orders.group_by(lambda order: order.cents, key=str)  # error: the key of a group
    orders.filter(lambda order: order.total > 10)  # error: the argument of a callback
    orders.group_by_key().aggregate(str, lambda n, _: n, value=int, store="s")  # error: initializer
    orders.join(names, lambda order, name: order.cents + name)  # error: a joiner
    app.store("spend", key=str, value=int).get(7)  # error: the key of a read


def more_errors(orders: KStream[str, Order], names: KTable[str, str], app: Application) -> None:
    orders.map_values(customer_of, value=int)  # error
    orders.map_values(customer_of, value=int64)  # error
    orders.map_values(invoice_of, value=Order)  # error
    orders.map_values(lambda key, order: key + order.customer, value=int)  # error
    orders.flat_map_values(lambda order: [order.customer], value=int)  # error
    orders.map(lambda order: (order.customer, order.cents), key=int)  # error
    orders.map(lambda order: (order.customer, order.cents), value=str)  # error
    orders.flat_map(lambda order: [(order.customer, order.cents)], value=str)  # error
    orders.select_key(customer_of, key=int)  # error
    orders.group_by(customer_of, key=int)  # error
    orders.group_by(customer_of, value=Invoice)  # error
    orders.process(Spending, key=str, value=str)  # error
    orders.join(names, lambda order, _: order.cents, value=str)  # error
    orders.left_join(names, lambda order, _: order.cents, value=str)  # error
    grouped = orders.group_by_key()
    grouped.aggregate(int, lambda _, order: order.customer, value=int, store="s")  # error
    grouped.aggregate(int, lambda n, order: n + order.cents, value=str, store="s")  # error
    grouped.windowed_by(HOUR).aggregate(int, lambda n, _: n, value=str, store="s")  # error
    grouped.cogroup(lambda total, order: total).aggregate(int, value=str, store="s")  # error
    names.map_values(len, value=str)  # error
    names.join(names, lambda left, right: len(left + right), value=str)  # error
    names.to_stream(lambda name: len(name) + 1, key=str)  # error
    app.store(SPEND).get(7)  # error
    app.store(HOURS).fetch("ada", "now")  # error
    app.remote_store("spend", key=str, value=int).get(7)  # error
    row = app.store("spend", key=str, value=int).get("ada")
    print(row.value)  # error: there may be no row
    for _, total in app.store(SPEND).all():
        print(total.value)  # error: rows of this store are plain values


class Totals(Aggregates[Order]):
    cents: Sum[Order, int] = Sum(lambda order: order.cents)
    orders = Count()
    customers = Collect(customer_of)
    best: TopN[Order, int] = TopN(lambda order: order.cents, 3)
    mean: Mean[Order] = Mean(lambda order: order.cents)


class WrongTotals(Aggregates[Order]):
    cents: Sum[Order, int] = Sum(lambda order: order.total)  # error
    mean: Mean[Order] = Mean(lambda order: order.customer)  # error
    sum: Sum[Invoice, int] = Sum(customer_of)  # error


def aggregates(orders: KStream[str, Order], invoices: KStream[str, Invoice]) -> None:
    totals = orders.group_by_key().agg(Totals, store="totals")
    assert_type(totals, KTable[str, Totals])
    assert_type(totals.map_values(lambda row: row.cents), KTable[str, int])
    assert_type(totals.map_values(lambda row: row.orders), KTable[str, int])
    assert_type(totals.map_values(lambda row: row.customers), KTable[str, tuple[str, ...]])
    assert_type(totals.map_values(lambda row: row.best), KTable[str, tuple[int, ...]])
    assert_type(totals.map_values(lambda row: row.mean), KTable[str, float])
    totals.map_values(lambda row: row.euros)  # error
    totals.map_values(lambda row: row.cents, value=str)  # error
    invoices.group_by_key().agg(Totals, store="totals")  # error
    hourly = orders.group_by_key().windowed_by(HOUR)
    assert_type(hourly.agg(Totals, store="t", emit="close"), KTable[Windowed[str], Totals])
    orders.group_by_key().agg(n=Count(), cents=Sum(lambda order: order.cents), store="s")
    orders.group_by_key().agg(x=Sum(lambda order: order.total), store="s")  # error
    orders.group_by_key().agg(x=Mean(lambda order: order.customer), store="s")  # error
    by_customer = orders.to_table(store="t").group_by(lambda order: (order.customer, order))
    assert_type(by_customer.agg(Totals, store="s"), KTable[str, Totals])
    by_customer.agg(x=Sum(lambda order: order.total), store="s")  # error


async def asynchronous(app: Application) -> None:
    await app.async_remote_store("spend", key=str, value=int).get(7)  # error


def correct(builder: StreamsBuilder, app: Application) -> None:
    orders = builder.stream("orders", value=Order)
    assert_type(orders.map_values(invoice_of, value=Invoice), KStream[str, Invoice])
    assert_type(orders.map_values(lambda order: order.cents, value=float), KStream[str, float])
    assert_type(orders.map_values(lambda order: order.cents, value=int64), KStream[str, int])
    assert_type(orders.map_values(lambda order: order.cents), KStream[str, int])
    orders.map_values(lambda order: order.cents or None, value=int | None)
    assert_type(orders.map_values(lambda order: order.cents or None), KStream[str, int | None])
    assert_type(orders.map_values(lambda order: order.cents or None, value=int), KStream[str, int])
    orders.map_values(lambda order: {"cents": order.cents}, value=dict)
    orders.map_values(lambda order: {"cents": order.cents}, value="json")
    assert_type(orders.map(lambda order: (order.cents, order), key=int), KStream[int, Order])
    assert_type(orders.process(Spending, key=str, value=int), KStream[str, int])
    grouped = orders.group_by(lambda order: order.customer, key=str, value=Order)
    spend = grouped.aggregate(int, lambda total, order: total + order.cents, value=int, store="s")
    assert_type(spend, KTable[str, int])
    assert_type(spend.map_values(str, value=str), KTable[str, str])
    read = app.store("spend", key=str, value=int)
    assert_type(read.get("ada"), ValueAndTimestamp[int] | None)
    for customer, row in read.range("a", "b"):
        assert_type(customer, str)
        assert_type(row, ValueAndTimestamp[int])
    hours = app.remote_store("per-hour", key=str, value=int, kind="timestamped_window")
    assert_type(hours.fetch("ada", 0), ValueAndTimestamp[int] | None)
    for window, _ in hours.all():
        assert_type(window, Windowed[str])
    assert_type(app.store(SPEND).get("ada"), int | None)
    assert_type(app.store(HOURS).fetch("ada", 0), int | None)
    print(app.store("spend").get("ada").value)  # not typed
