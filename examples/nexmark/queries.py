"""The queries of Nexmark that need no processing time, one function each.

A function declares its query on a builder; results are on the topic of its name. The text of each
query in SQL is in reference.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from examples.nexmark.events import Auction, Bid, Person
from logstate import (
    Collect,
    Count,
    CountDistinct,
    HoppingWindows,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Max,
    Mean,
    Min,
    SessionWindows,
    StreamsBuilder,
    Sum,
    TopN,
    TumblingWindows,
)

V = TypeVar("V")

EURO = Decimal("0.908")
#: how late a record may be, as the watermark of the original
GRACE = timedelta(seconds=4)
#: a join without a time bound in SQL; here with one
UNBOUNDED = timedelta(days=1)
TEN_SECONDS = TumblingWindows(size=timedelta(seconds=10), grace=GRACE)
WINDOW_MS = 10_000


# --- what the queries share -----------------------------------------------------------------------


def persons(builder: StreamsBuilder) -> KStream[int, Person]:
    return builder.stream("persons", key=int, value=Person)


def auctions(builder: StreamsBuilder) -> KStream[int, Auction]:
    return builder.stream("auctions", key=int, value=Auction)


def bids(builder: StreamsBuilder) -> KStream[int, Bid]:
    """Return the bids, by auction."""
    return builder.stream("bids", key=int, value=Bid)


class Offer(msgspec.Struct, frozen=True):
    """A bid on an auction that was open at that time."""

    auction: Auction
    bid: Bid


def offers(builder: StreamsBuilder) -> KStream[int, Offer]:
    """Return ``B.dateTime BETWEEN A.dateTime AND A.expires``: the auction as of the bid's time."""
    opened = builder.table(
        "auctions", key=int, value=Auction, store=Materialized("auctions", history=UNBOUNDED)
    )
    pairs = bids(builder).join(
        opened, lambda bid, auction: Offer(auction, bid), grace=GRACE, name="offers", value=Offer
    )
    return pairs.filter(lambda offer: offer.bid.date_time <= offer.auction.expires)


def better(best: Offer, offer: Offer) -> Offer:
    """Return the offer with the higher price; of equal ones the earlier."""
    return max(best, offer, key=lambda one: (one.bid.price, -one.bid.date_time))


def winners(builder: StreamsBuilder) -> KTable[int, Offer]:
    return offers(builder).group_by_key().reduce(better, store="winners")


def all_greatest(measure: Callable[[V], int]) -> Callable[[list[V], V], list[V]]:
    """Return an aggregator that keeps all values with the greatest ``measure``."""

    def add(best: list[V], value: V) -> list[V]:
        if not best or measure(value) > measure(best[0]):
            return [value]
        return [*best, value] if measure(value) == measure(best[0]) else best

    return add


def number(count: tuple[int, int]) -> int:
    return count[1]


def at(bid: Bid) -> datetime:
    return datetime.fromtimestamp(bid.date_time / 1_000, UTC)


def day(bid: Bid) -> str:
    return f"{at(bid):%Y-%m-%d}"


def rank(bid: Bid) -> int:
    return 1 if bid.price < 10_000 else 2 if bid.price < 1_000_000 else 3


def bidder(bid: Bid) -> int:
    return bid.bidder


def auction(bid: Bid) -> int:
    return bid.auction


def price(bid: Bid) -> int:
    return bid.price


def of_rank(wanted: int, field: Callable[[Bid], V]) -> Callable[[Bid], V | None]:
    """Return SQL's ``FILTER (WHERE …)``: None is not aggregated."""
    return lambda bid: field(bid) if rank(bid) == wanted else None


def statistics() -> dict[str, Any]:
    """Return the twelve aggregates of the queries 15 and 16."""
    found: dict[str, Any] = {"total_bids": Count()}
    for one in (1, 2, 3):
        found[f"rank{one}_bids"] = Count(of_rank(one, price))
    for what, field in (("bidders", bidder), ("auctions", auction)):
        found[f"total_{what}"] = CountDistinct(field)
        for one in (1, 2, 3):
            found[f"rank{one}_{what}"] = CountDistinct(of_rank(one, field), int)
    return found


# --- the queries ----------------------------------------------------------------------------------


def q0(builder: StreamsBuilder) -> None:
    bids(builder).to("q0")


def q1(builder: StreamsBuilder) -> None:
    def in_euro(bid: Bid) -> dict[str, Any]:
        return {**msgspec.structs.asdict(bid), "price": str(EURO * bid.price)}

    bids(builder).map_values(in_euro, value=dict).to("q1")


def q2(builder: StreamsBuilder) -> None:
    chosen = bids(builder).filter(lambda bid: bid.auction % 123 == 0)
    chosen.map_values(lambda bid: bid.price, value=int).to("q2")


def q3(builder: StreamsBuilder) -> None:
    sellers = persons(builder).filter(lambda person: person.state in {"OR", "ID", "CA"})
    items = auctions(builder).filter(lambda auction: auction.category == 10)
    suggestions = items.to_table(store="items").join(
        sellers.to_table(store="sellers"),
        lambda _, seller: [seller.name, seller.city, seller.state],
        foreign_key=lambda item: item.seller,
        name="local",
        value=list,
    )
    suggestions.to_stream().to("q3")


def q4(builder: StreamsBuilder) -> None:
    final = offers(builder).map_values(
        lambda offer: (offer.auction.category, offer.bid.price), value=tuple[int, int]
    )
    highest = final.group_by_key().reduce(
        lambda high, one: one if one > high else high, store="final-prices"
    )
    by_category = highest.group_by(lambda row: row, name="by-category", key=int, value=int)
    by_category.agg(average=Mean(lambda price: price), store="averages").to_stream().to("q4")


def q5(builder: StreamsBuilder) -> None:
    hops = HoppingWindows(size=timedelta(seconds=10), advance=timedelta(seconds=2), grace=GRACE)
    store = Materialized("counts", retention=UNBOUNDED)
    counts = bids(builder).group_by_key().windowed_by(hops).count(store=store, emit="close")
    by_window = counts.to_stream().map(
        lambda window, n: (window.start_ms, (window.key, n)), key=int, value=tuple[int, int]
    )
    hot = by_window.group_by_key(name="by-window").aggregate(
        list, all_greatest(number), value=list[tuple[int, int]], store="hot"
    )
    hot.to_stream().to("q5")


def q6(builder: StreamsBuilder) -> None:
    by_seller = winners(builder).group_by(
        lambda offer: (offer.auction.seller, (offer.bid.date_time, offer.bid.price)),
        name="by-seller",
        key=int,
        value=tuple[int, int],
    )
    sold = by_seller.agg(prices=Collect(lambda sale: sale), store="sold")

    def mean_of_last_ten(row: Any) -> float:
        last = [price for _, price in sorted(row.prices)[-10:]]
        return float(sum(last) / len(last))

    sold.map_values(mean_of_last_ten, value=float).to_stream().to("q6")


def q7(builder: StreamsBuilder) -> None:
    of_auctions = bids(builder).group_by_key().windowed_by(TEN_SECONDS)
    store = Materialized("highest-of-auctions", retention=UNBOUNDED)
    candidates = of_auctions.aggregate(
        list, all_greatest(price), value=list[Bid], store=store, emit="close"
    )
    by_window = candidates.to_stream().flat_map(
        lambda window, best: [(window.start_ms, bid) for bid in best], key=int, value=Bid
    )
    highest = by_window.group_by_key(name="by-window").aggregate(
        list, all_greatest(price), value=list[Bid], store="highest"
    )
    highest.to_stream().to("q7")


def q8(builder: StreamsBuilder) -> None:
    sellers = auctions(builder).select_key(lambda auction: auction.seller, key=int)
    new = persons(builder).join(
        sellers,
        lambda person, auction: (person.name, person.date_time, auction.date_time),
        windows=JoinWindows.symmetric(timedelta(milliseconds=WINDOW_MS), grace=GRACE),
        name="new-sellers",
        value=tuple[str, int, int],
    )
    same = new.filter(lambda found: found[1] // WINDOW_MS == found[2] // WINDOW_MS)
    same.distinct(windows=TEN_SECONDS, store="new-sellers-seen").to("q8")


def q9(builder: StreamsBuilder) -> None:
    winners(builder).to_stream().to("q9")


def q10(builder: StreamsBuilder) -> None:
    def partition(bid: Bid) -> tuple[str, Bid]:
        return f"{at(bid):%Y-%m-%d %H:%M}", bid

    bids(builder).map(partition, key=str, value=Bid).to("q10")


def q11(builder: StreamsBuilder) -> None:
    by_bidder = bids(builder).group_by(lambda bid: bid.bidder, name="by-bidder", key=int, value=Bid)
    ten = timedelta(seconds=10)
    visits = by_bidder.windowed_by(SessionWindows(gap=ten, grace=GRACE))
    store = Materialized("visits", retention=UNBOUNDED)
    counts = visits.count(store=store, emit="close").to_stream()
    counts.map(
        lambda window, n: (window.key, (n, window.start_ms, window.end_ms + WINDOW_MS)),
        key=int,
        value=tuple[int, int, int],
    ).to("q11")


def q13(builder: StreamsBuilder) -> None:
    side = builder.global_table("side-input", key=int, value=str, store="side-input")
    expanded = bids(builder).join(
        side,
        lambda bid, text: (bid.bidder, bid.price, bid.date_time, text),
        key_mapper=lambda bid: bid.auction % 10_000,
        value=tuple[int, int, int, str],
    )
    expanded.to("q13")


def q14(builder: StreamsBuilder) -> None:
    def calculated(bid: Bid) -> tuple[int, str, str, int, str, int]:
        hour = at(bid).hour
        kind = "dayTime" if 8 <= hour <= 18 else "otherTime" if hour in {7, 19} else "nightTime"
        price = str(EURO * bid.price)
        return bid.bidder, price, kind, bid.date_time, bid.extra, bid.extra.count("c")

    chosen = bids(builder).filter(lambda bid: 1_000_000 < EURO * bid.price < 50_000_000)
    chosen.map_values(calculated, value=tuple[int, str, str, int, str, int]).to("q14")


def q15(builder: StreamsBuilder) -> None:
    by_day = bids(builder).group_by(day, name="by-day", key=str, value=Bid)
    by_day.agg(**statistics(), store="days").to_stream().to("q15")


def q16(builder: StreamsBuilder) -> None:
    by_channel = bids(builder).group_by(
        lambda bid: (bid.channel, day(bid)), name="by-channel", key=tuple[str, str], value=Bid
    )
    minute = Max[Bid, str](lambda bid: f"{at(bid):%H:%M}", str)
    by_channel.agg(minute=minute, **statistics(), store="channels").to_stream().to("q16")


def q17(builder: StreamsBuilder) -> None:
    by_day = bids(builder).group_by(
        lambda bid: (bid.auction, day(bid)), name="by-day", key=tuple[int, str], value=Bid
    )
    by_day.agg(
        total_bids=Count(),
        rank1_bids=Count(of_rank(1, price)),
        rank2_bids=Count(of_rank(2, price)),
        rank3_bids=Count(of_rank(3, price)),
        min_price=Min(price),
        max_price=Max(price),
        avg_price=Mean(price),
        sum_price=Sum(price),
        store="auction-days",
    ).to_stream().to("q17")


def q18(builder: StreamsBuilder) -> None:
    by_both = bids(builder).group_by(
        lambda bid: (bid.bidder, bid.auction), name="by-both", key=tuple[int, int], value=Bid
    )
    last = by_both.reduce(
        lambda known, bid: bid if bid.date_time >= known.date_time else known, store="last-bids"
    )
    last.to_stream().to("q18")


def q19(builder: StreamsBuilder) -> None:
    top = TopN(lambda bid: (bid.price, -bid.date_time, bid), 10, tuple[int, int, Bid])
    bids(builder).group_by_key().agg(top=top, store="top").to_stream().to("q19")


def q20(builder: StreamsBuilder) -> None:
    wanted = auctions(builder).filter(lambda auction: auction.category == 10)
    expanded = bids(builder).join(
        wanted,
        lambda bid, auction: Offer(auction, bid),
        windows=JoinWindows.symmetric(UNBOUNDED),
        name="expanded",
        value=Offer,
    )
    expanded.to("q20")


CHANNEL_ID = re.compile(r"(?:&|^)channel_id=([^&]*)")
CHANNEL_IDS = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}


def q21(builder: StreamsBuilder) -> None:
    def channel_id(bid: Bid) -> str | None:
        in_url = CHANNEL_ID.search(bid.url)
        return CHANNEL_IDS.get(bid.channel.lower()) or (in_url and in_url[1])

    def with_id(bid: Bid) -> list[tuple[int, int, str, str]]:
        found = channel_id(bid)
        return [(bid.bidder, bid.price, bid.channel, found)] if found else []

    bids(builder).flat_map_values(with_id, value=tuple[int, int, str, str]).to("q21")


def q22(builder: StreamsBuilder) -> None:
    def directories(bid: Bid) -> list[Any]:
        parts = [*bid.url.split("/"), *[None] * 6]
        return [bid.bidder, bid.price, bid.channel, *parts[3:6]]

    bids(builder).map_values(directories, value=list).to("q22")
