"""Examples on a broker, whose instances are killed and lose disks: every result is compared."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import networkx as nx
import pytest

import logstate
from examples.accounts.transfers import balances, transfers
from examples.click_join.app import Joined
from examples.click_join.logs import joined, logs
from examples.graph.reference import components_of, edges, neighbors_of, triangles_of
from examples.linear_road.app import Alert, Toll, road_of
from examples.linear_road.traffic import traffic
from examples.linear_road.validator import expected
from examples.nexmark.events import events
from examples.synopses.app import Synopsis
from examples.synopses.visitors import visitors
from examples.top_pages.reference import most_viewed, views
from logstate.changelog.cuts.named_cuts import create_cut
from tests.broker.example_run import PARTITIONS, Entry, ExampleRun, running
from tests.campaigns.nexmark.run import run_query
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.slow

KILLS, SEED = 2, 5
HOUR_MS = 3_600_000
WORDS = ("to", "be", "or", "not", "that", "is")
PATIENCE = timedelta(seconds=PATIENCE_S)


def json(key: str, value: object, time_ms: int) -> Entry:
    return key.encode(), msgspec.json.encode(value), time_ms


def rows(run: ExampleRun, store: str, cut: str = "latest-commit") -> dict[Any, Any]:
    """Read the rows of a store from its changelog."""
    table = logstate.read(run.name, store, bootstrap=run.bootstrap, cut=cut).to_arrow()
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))


def latest(run: ExampleRun, topic: str) -> dict[str, bytes | None]:
    """Return the last value of each key of a topic."""
    return {(key or b"").decode(): value for key, value, _ in run.read(topic)}


# --- accounts -------------------------------------------------------------------------------------


def check_snapshot(run: ExampleRun, name: str) -> int:
    """Return the number of transfers at a snapshot, which has both bookings of each."""
    made = create_cut(run.bootstrap, run.name, name, across_repartitions=PATIENCE)
    accounts = rows(run, "accounts", made.name).values()
    assert sum(account["cents"] for account in accounts) == 0
    booked = sum(account["bookings"] for account in accounts)
    assert booked == 2 * sum(made.cut.inputs[f"{run.name}-transfers"].values())
    return int(booked) // 2


def test_the_sum_of_all_accounts_is_zero_at_every_snapshot_while_instances_are_killed(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    made = transfers(2_000, SEED)
    records = [
        ("transfers", json(f"t-{number}", transfer, number + 1))
        for number, transfer in enumerate(made)
    ]
    topics, name = ("transfers", "balances"), unique("accounts")
    with running("examples.accounts.app", bootstrap, name, tmp_path, topics, 2) as run:
        counts: list[int] = []

        def look(number: int) -> None:
            counts.append(check_snapshot(run, f"s-{number}"))

        run.send_with_kills(records, KILLS, SEED, look)
        assert counts == sorted(counts)
        booked = 2 * len(made)
        until(lambda: sum(one["bookings"] for one in rows(run, "accounts").values()) == booked)
        run.stop()

        found = rows(run, "accounts")
        assert {account: row["cents"] for account, row in found.items()} == balances(made)


# --- linear road ----------------------------------------------------------------------------------


def test_tolls_alerts_and_balances_of_linear_road_are_right_while_the_instance_is_killed(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    reports = traffic(2, SEED)
    wanted = expected(reports)
    records = [("reports", json(road_of(one), one, one.time * 1_000 + 1)) for one in reports]
    topics, name = ("reports", "tolls", "alerts", "balances"), unique("linear-road")
    with running("examples.linear_road.app", bootstrap, name, tmp_path, topics) as run:
        run.send_with_kills(records, KILLS, SEED)

        def notices(topic: str, kind: type[Any]) -> Counter[tuple[int, Any]]:
            decode = msgspec.json.Decoder(kind).decode
            found = [
                (int.from_bytes(key or b""), decode(value or b""))
                for key, value, _ in run.read(topic)
            ]
            return Counter(found)

        paid = sum(number for _, number in wanted.balances.values())
        until(lambda: notices("tolls", Toll).total() >= wanted.tolls.total())
        until(lambda: sum(row["tolls"] for row in rows(run, "balances").values()) >= paid)
        run.stop()

        assert notices("tolls", Toll) == wanted.tolls
        assert notices("alerts", Alert) == wanted.alerts
        found = {car: (row["cents"], row["tolls"]) for car, row in rows(run, "balances").items()}
        assert found == wanted.balances


# --- click join -----------------------------------------------------------------------------------


def test_each_click_is_joined_once_while_the_instance_is_killed(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    entries = logs(1_500, SEED)
    wanted = joined(entries)
    records = [(one.topic, json(one.key, one.value, one.time_ms)) for one in entries]
    topics, name = ("queries", "clicks", "joined"), unique("click-join")
    with running("examples.click_join.app", bootstrap, name, tmp_path, topics) as run:
        run.send_with_kills(records, KILLS, SEED)
        until(lambda: len(run.read("joined")) >= wanted.total())
        run.stop()

        found = [
            msgspec.json.decode(value or b"", type=Joined) for _, value, _ in run.read("joined")
        ]
        assert Counter(found) == wanted


# --- word count -----------------------------------------------------------------------------------


def test_the_word_count_counts_each_word_once_although_the_disk_is_lost(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    lines = [" ".join(rng.choices(WORDS, k=4)) for _ in range(1_000)]
    wanted = Counter(word for line in lines for word in line.split())
    records = [("lines", (None, line.encode(), n + 1)) for n, line in enumerate(lines)]
    topics, name = ("lines", "word-counts"), unique("word-count")
    with running("examples.01_word_count.app", bootstrap, name, tmp_path, topics) as run:
        run.send_with_kills(records, KILLS, SEED)
        until(lambda: len(run.read("word-counts")) >= wanted.total())
        run.stop()

        found = defaultdict(list)
        for key, value, _ in run.read("word-counts"):
            found[(key or b"").decode()].append(int.from_bytes(value or b""))
        assert found == {word: list(range(1, n + 1)) for word, n in wanted.items()}
        assert rows(run, "counts") == wanted


# --- graph ----------------------------------------------------------------------------------------


def edge_records(edges: Sequence[tuple[str, str]], value: bytes | None) -> list[tuple[str, Entry]]:
    return [("edges", ("-".join(edge).encode(), value, n)) for n, edge in enumerate(edges, 1)]


def test_neighbors_triangles_and_components_are_right_while_the_instances_are_killed(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    added = edges(SEED)
    graph = nx.Graph(added)
    topics, name = ("edges", "labels", "triangles"), unique("graph")
    with running("examples.graph.app", bootstrap, name, tmp_path, topics, 2) as run:

        def triangles() -> set[str]:
            found = latest(run, "triangles")
            return {corners for corners, value in found.items() if value is not None}

        def neighbors() -> dict[str, set[str]]:
            found = defaultdict(set)
            for row in logstate.read(name, "neighbors", bootstrap=bootstrap).to_arrow().to_pylist():
                found[row["key"]].add(row["map_key"])
            return found

        def components() -> set[frozenset[str]]:
            found = defaultdict(set)
            for vertex, label in rows(run, "components").items():
                found[label].add(vertex)
            return set(map(frozenset, found.values()))

        run.send_with_kills(edge_records(added, b"road"), KILLS, SEED)
        until(lambda: triangles() == triangles_of(graph), lambda: f"{triangles()}")
        until(lambda: components() == components_of(graph), lambda: f"{components()}")

        graph.remove_edges_from(added[::2])
        run.send_with_kills(edge_records(added[::2], None), KILLS, SEED)
        until(lambda: neighbors() == neighbors_of(graph), lambda: f"{neighbors()}")
        until(lambda: triangles() == triangles_of(graph), lambda: f"{triangles()}")
        run.stop()

        assert neighbors() == neighbors_of(graph)
        assert triangles() == triangles_of(graph)


# --- top pages ------------------------------------------------------------------------------------


def test_each_window_has_its_ten_most_viewed_pages_while_the_instances_are_killed(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    seen = views(1_500, SEED)
    wanted = most_viewed(seen)
    last_ms = max(time_ms for _, time_ms in seen) + HOUR_MS
    closing = [(f"last-{number}", last_ms) for number in range(PARTITIONS * 4)]
    records = [
        ("views", (page.encode(), b"visitor", time_ms)) for page, time_ms in (*seen, *closing)
    ]
    topics, name = ("views", "top-pages"), unique("top-pages")
    decode = msgspec.json.Decoder(dict[str, list[tuple[int, str]]]).decode
    with running("examples.top_pages.app", bootstrap, name, tmp_path, topics, 2) as run:

        def top() -> dict[str, list[tuple[int, str]]]:
            found = latest(run, "top-pages")
            return {window: decode(value or b"")["pages"] for window, value in found.items()}

        run.send_with_kills(records, KILLS, SEED)
        until(lambda: top() == wanted, lambda: f"{top()}")
        run.stop()
        assert top() == wanted


# --- synopses -------------------------------------------------------------------------------------


def test_synopses_are_those_of_all_requests_while_the_instance_is_killed(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    by_site = {site: visitors(500, seed) for seed, site in enumerate(("shop", "docs", "home"))}
    requests = [
        (site, visitor)
        for of_all in zip(*by_site.values(), strict=True)
        for site, visitor in zip(by_site, of_all, strict=True)
    ]
    records = [
        ("requests", (site.encode(), visitor.encode(), number))
        for number, (site, visitor) in enumerate(requests, 1)
    ]
    topics, name = ("requests", "synopses"), unique("synopses")
    with running("examples.synopses.app", bootstrap, name, tmp_path, topics) as run:

        def synopses() -> dict[str, Synopsis]:
            decode = msgspec.json.Decoder(Synopsis).decode
            return {site: decode(value or b"") for site, value in latest(run, "synopses").items()}

        run.send_with_kills(records, KILLS, SEED)
        until(lambda: sum(one.requests for one in synopses().values()) >= len(requests))
        run.stop()

        assert synopses() == {site: Synopsis.aggregate(seen) for site, seen in by_site.items()}
        last = defaultdict(list)
        for row in logstate.read(name, "last", bootstrap=bootstrap).to_arrow().to_pylist():
            last[row["key"]].append((row["position"], row["value"]))
        wanted = {site: seen[-20:] for site, seen in by_site.items()}
        assert {site: [one for _, one in sorted(rows)] for site, rows in last.items()} == wanted


# --- Nexmark --------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["q4", "q5", "q8"])
def test_a_query_of_nexmark_has_the_rows_of_sql_although_its_instance_is_killed(
    query: str, bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    assert run_query(
        query, list(events(800, SEED)), bootstrap, unique(query), tmp_path, KILLS, SEED
    )
