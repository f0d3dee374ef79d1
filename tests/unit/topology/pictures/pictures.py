"""Draw the topologies whose pictures this folder has.

python -m tests.unit.topology.pictures.pictures
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from logstate.topology import JoinWindows, StreamsBuilder, Topology

FOLDER = Path(__file__).parent


def orders() -> Topology:
    """Joins, branches that meet again, a repartition, and topics chosen per record."""
    builder = StreamsBuilder()
    placed = builder.stream("orders", value=int, name="orders")
    payments = builder.stream("payments", value=int, name="payments")
    near = JoinWindows.symmetric(timedelta(seconds=1))
    paid = placed.left_join(payments, lambda a, b: a, windows=near, name="paid")
    split = paid.split(name="by-").branch(lambda v: v > 9, name="large")
    branches = split.branch(lambda v: v > 5, name="medium").default_branch(name="small")
    branches["by-large"].to("large", value=int, name="large")
    amounts = branches["by-medium"].group_by(lambda v: v, name="amount", key=int, value=int)
    counts = amounts.count(store="per-amount", name="count").to_stream(name="changes")
    counts.to(lambda key, value, metadata: "x", name="chosen")
    small = branches["by-small"].map_values(lambda v: v, value=int, name="cents")
    small.merge(placed.filter(lambda v: v > 3, name="few"), name="both").to("small", name="rest")
    return builder.build()


def routes() -> Topology:
    """A foreign-key join, whose answers lead back up, and a global table."""
    builder = StreamsBuilder()
    flights = builder.table("flights", value=str, store="flights", name="flights")
    airports = builder.table("airports", value=str, store="airports", name="airports")
    routes = flights.join(
        airports,
        lambda flight, airport: flight,
        foreign_key=lambda flight: flight,
        store="routes",
        value=str,
        name="route",
    )
    routes.to_stream(name="changes").to("routes", name="out")
    builder.global_table("planes", value=str, store="planes", name="planes")
    return builder.build()


TOPOLOGIES: dict[str, Callable[[], Topology]] = {"orders": orders, "routes": routes}


def draw_anew() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, make in TOPOLOGIES.items():
        topology = make()
        (FOLDER / f"{name}.svg").write_text(topology.to_svg(), encoding="utf-8")
        (FOLDER / f"{name}.mmd").write_text(topology.to_mermaid(), encoding="utf-8")


if __name__ == "__main__":
    draw_anew()
