"""Which product is in which offer? Two tables, joined by a column, kept up to date on both sides.

offers (by offer id)     ──┐
                           ├── join by offer.product ── current-offers (by offer id)
products (by product id) ──┘
"""

from __future__ import annotations

import msgspec

from logstate import StreamsBuilder, Topology


class Offer(msgspec.Struct, frozen=True):
    product: str
    percent_off: int


class Product(msgspec.Struct, frozen=True):
    title: str
    cents: int


class CurrentOffer(msgspec.Struct, frozen=True):
    title: str
    cents: int


def reduced(offer: Offer, product: Product) -> CurrentOffer:
    return CurrentOffer(product.title, product.cents * (100 - offer.percent_off) // 100)


def topology() -> Topology:
    builder = StreamsBuilder()
    offers = builder.table("offers", key=str, value=Offer, store="offers")
    products = builder.table("products", key=str, value=Product, store="products")
    current = offers.join(
        products,
        reduced,
        foreign_key=lambda offer: offer.product,
        name="offer-product",  # names two internal topics and a store of subscriptions
        store="current-offers",
        value=CurrentOffer,
    )
    current.to_stream().to("current-offers")
    return builder.build()


if __name__ == "__main__":
    from examples.playground import play

    play(topology(), application_id="offers")
