"""Transfers between accounts: money is neither lost nor made, whenever you look.

    transfers ── a debit and a credit ── by account ── sum and number (store: accounts) ── balances

The two bookings of a transfer belong to two accounts, which may be in different partitions. Both
follow from one record, so a cut has both or none if it is consistent across partitions.
"""

from __future__ import annotations

import msgspec

from logstate import Aggregates, Count, StreamsBuilder, Sum, Topology

#: where deposits come from; its balance is minus the sum of all others
BANK = "bank"


class Transfer(msgspec.Struct, frozen=True):
    source: str
    target: str
    cents: int


class Account(Aggregates[int]):
    """What is known of an account, from its bookings in cents."""

    cents: Sum[int, int] = Sum(lambda cents: cents, int)
    bookings = Count()


def bookings(transfer: Transfer) -> list[tuple[str, int]]:
    return [(transfer.source, -transfer.cents), (transfer.target, transfer.cents)]


def topology(prefix: str = "") -> Topology:
    builder = StreamsBuilder()
    transfers = builder.stream(f"{prefix}transfers", key=str, value=Transfer)
    booked = transfers.flat_map(bookings, key=str, value=int)
    accounts = booked.group_by_key(name="by-account").agg(Account, store="accounts")
    accounts.to_stream().to(f"{prefix}balances")
    return builder.build()


if __name__ == "__main__":
    from examples.playground import play

    play(topology(), application_id="accounts")
