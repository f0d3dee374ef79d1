"""The persons, auctions and bids of an auction house, drawn from a seed.

Fields, proportions and the share of hot items follow the generator of the Nexmark repository
(README.md). Event time has two periods on one day, so that bids have several hours and two days,
and one bid in ten arrives up to three seconds late.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec

#: where the first and the second half of the events begin: 07:58 and 23:58
PERIODS_MS = tuple(
    int(datetime(2015, 7, 15, hour, 58, tzinfo=UTC).timestamp()) * 1_000 for hour in (7, 23)
)
#: event time between two events
STEP_MS = 100
#: of 50 events, the first is a person, the next three are auctions, the others are bids
PERSONS, AUCTIONS, ALL = 1, 3, 50
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1_100, 10, 5
#: auctions that are open at a time; ids may be ahead of the auctions and persons that exist
IN_FLIGHT, LEAD = 20, 10
LATE_ONE_IN, LATE_MS = 10, 3_000
#: after the last event, in each partition, so that every window closes
END_MS, END_KEYS = 3_600_000, range(8)

STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Los Angeles", "Boise", "Portland", "Seattle", "Cheyenne")
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Vicky", "Kate", "Julie", "Sarah")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
CHANNELS = 100
#: the table that query 13 joins with, for some of the auctions
SIDE_INPUT = {key: f"side {key}" for key in range(FIRST_ID, FIRST_ID + 40)}


class Person(msgspec.Struct, frozen=True):
    id: int
    name: str
    city: str
    state: str
    date_time: int


class Auction(msgspec.Struct, frozen=True):
    id: int
    item_name: str
    initial_bid: int
    reserve: int
    date_time: int
    expires: int
    seller: int
    category: int


class Bid(msgspec.Struct, frozen=True, order=True):
    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    date_time: int
    extra: str


class Event(NamedTuple):
    """A record of the topic ``persons``, ``auctions`` or ``bids``, at the time of its value."""

    topic: str
    key: int
    value: Person | Auction | Bid


def events(count: int, seed: int) -> Iterator[Event]:
    """Draw ``count`` events and, an hour after them, the last of each topic and partition."""
    generator, now = _Generator(seed), PERIODS_MS[0]
    waiting: list[tuple[int, int, Event]] = []
    for number in range(count):
        second_half, place = divmod(number, count // 2 + count % 2)
        now = PERIODS_MS[second_half] + place * STEP_MS
        event = generator.draw(number, now)
        is_late = event.topic == "bids" and generator.rng.randrange(LATE_ONE_IN) == 0
        arrives = now + (generator.rng.randrange(LATE_MS) if is_late else 0)
        heappush(waiting, (arrives, number, event))
        while waiting and waiting[0][0] <= now:
            yield heappop(waiting)[2]
    while waiting:
        yield heappop(waiting)[2]
    end = now + END_MS
    for one in END_KEYS:
        yield Event("persons", one, Person(one, "", "", "", end))
        yield Event("auctions", one, Auction(one, "", 1, 1, end, end, one, 0))
        yield Event("bids", -1 - one, Bid(-1 - one, one, 1, "", "", end, ""))


class _Generator:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311  drawn again from the seed, not secret
        self._channels = [
            (name, self._url(None if name in HOT_CHANNELS else number))
            for number, name in enumerate(
                [*HOT_CHANNELS, *(f"channel-{one}" for one in range(CHANNELS))]
            )
        ]

    def draw(self, number: int, now: int) -> Event:
        epoch, place = divmod(number, ALL)
        persons = epoch * PERSONS + min(place + 1, PERSONS)
        auctions = epoch * AUCTIONS + min(max(place + 1 - PERSONS, 0), AUCTIONS)
        if place < PERSONS:
            person = self._person(FIRST_ID + persons - 1, now)
            return Event("persons", person.id, person)
        if place < PERSONS + AUCTIONS:
            auction = self._auction(FIRST_ID + auctions - 1, persons, now)
            return Event("auctions", auction.id, auction)
        bid = self._bid(auctions, persons, now)
        return Event("bids", bid.auction, bid)

    def _person(self, new_id: int, now: int) -> Person:
        choose = self.rng.choice
        name = f"{choose(FIRST_NAMES)} {choose(LAST_NAMES)}"
        return Person(new_id, name, choose(CITIES), choose(STATES), now)

    def _auction(self, new_id: int, persons: int, now: int) -> Auction:
        first_price = self._price()
        horizon_ms = IN_FLIGHT * ALL * STEP_MS // AUCTIONS
        return Auction(
            id=new_id,
            item_name=self._text(10),
            initial_bid=first_price,
            reserve=first_price + self._price(),
            date_time=now,
            expires=now + 1 + self.rng.randrange(2 * horizon_ms),
            seller=self._person_id(persons, hot_one_of=4, hot=0),
            category=FIRST_CATEGORY + self.rng.randrange(CATEGORIES),
        )

    def _bid(self, auctions: int, persons: int, now: int) -> Bid:
        if self.rng.randrange(2):
            auction = auctions - 1 - (auctions - 1) % 10  # the first of the last ten
        else:
            auction = self.rng.randrange(max(auctions - IN_FLIGHT, 0), auctions + LEAD)
        is_hot = self.rng.randrange(2)
        first, last = (0, len(HOT_CHANNELS)) if is_hot else (len(HOT_CHANNELS), len(self._channels))
        channel, url = self._channels[self.rng.randrange(first, last)]
        bidder = self._person_id(persons, hot_one_of=4, hot=1)
        extra = self._text(12)
        return Bid(FIRST_ID + auction, bidder, self._price(), channel, url, now, extra)

    def _person_id(self, persons: int, *, hot_one_of: int, hot: int) -> int:
        """Most often the first or second of the last ten persons, else any one."""
        if self.rng.randrange(hot_one_of):
            return FIRST_ID + persons - 1 - (persons - 1) % 10 + hot
        return FIRST_ID + self.rng.randrange(persons + LEAD)

    def _price(self) -> int:
        """Cents, from 1 to 100 million, evenly over the orders of magnitude."""
        return round(10 ** (self.rng.random() * 6) * 100)

    def _text(self, length: int) -> str:
        return "".join(self.rng.choices("abcdefgh", k=length))

    def _url(self, channel_id: int | None) -> str:
        path = "/".join(self._text(5) for _ in range(3))
        url = f"https://www.nexmark.com/{path}/item.htm?query=1"
        has_id = channel_id is not None and self.rng.randrange(10) > 0
        return f"{url}&channel_id={channel_id}" if has_id else url
