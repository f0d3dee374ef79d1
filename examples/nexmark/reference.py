"""The same queries in SQL over the whole input, in DuckDB.

The text is that of the Nexmark repository (README.md), in DuckDB's dialect: times are milliseconds,
windows are computed, and ``seq``, the order of arrival, decides where the original leaves it open
which of two rows comes first. Windows that the last event leaves open are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import duckdb
import msgspec

from examples.nexmark.events import SIDE_INPUT, Event

Row = tuple[object, ...]

TABLES = {
    "persons": "id BIGINT, name VARCHAR, city VARCHAR, state VARCHAR, date_time BIGINT",
    "auctions": (
        "id BIGINT, item_name VARCHAR, initial_bid BIGINT, reserve BIGINT, date_time BIGINT,"
        " expires BIGINT, seller BIGINT, category BIGINT"
    ),
    "bids": (
        "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR,"
        " date_time BIGINT, extra VARCHAR"
    ),
}
#: what several queries use: a day and a minute as text, windows, and bids on open auctions
VIEWS = """
    CREATE VIEW bid AS SELECT * EXCLUDE (seq) FROM bids;
    CREATE VIEW input_end AS SELECT max(date_time) AS ms FROM bids;
    CREATE VIEW b AS SELECT *,
        strftime(make_timestamp(date_time * 1000), '%Y-%m-%d') AS day,
        strftime(make_timestamp(date_time * 1000), '%H:%M') AS minute,
        hour(make_timestamp(date_time * 1000)) AS hour
    FROM bids;
    CREATE VIEW offers AS
        SELECT a.*, b.auction, b.bidder, b.price, b.channel, b.url,
               b.date_time AS bid_time, b.extra, b.seq AS bid_seq
        FROM auctions a JOIN bids b ON a.id = b.auction
        WHERE b.date_time BETWEEN a.date_time AND a.expires;
    CREATE VIEW hop AS
        SELECT auction, start, count(*) AS num
        FROM (SELECT auction, date_time // 2000 * 2000 - 2000 * hops.range AS start
              FROM bids, range(5) AS hops)
        WHERE start + 10000 <= (SELECT ms FROM input_end) GROUP BY auction, start;
    CREATE VIEW statistics AS
        SELECT channel, day, max(minute) AS minute,
            count(*) AS total_bids,
            count(*) FILTER (WHERE price < 10000) AS rank1_bids,
            count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
            count(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
            count(DISTINCT bidder) AS total_bidders,
            count(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
            count(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000)
                AS rank2_bidders,
            count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidders,
            count(DISTINCT auction) AS total_auctions,
            count(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auctions,
            count(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000)
                AS rank2_auctions,
            count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions
        FROM b GROUP BY GROUPING SETS ((day), (channel, day));
"""

QUERIES = {
    "q0": "SELECT * FROM bid",
    "q1": """SELECT auction, bidder, (0.908 * price)::VARCHAR, channel, url, date_time, extra
             FROM bid""",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """SELECT p.name, p.city, p.state, a.id
             FROM auctions a JOIN persons p ON a.seller = p.id
             WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": """SELECT category, avg(final) FROM (
                 SELECT max(price) AS final, category FROM offers GROUP BY id, category
             ) GROUP BY category""",
    "q5": """SELECT auction, num, h.start FROM hop h JOIN (
                 SELECT max(num) AS maxn, start FROM hop GROUP BY start
             ) m ON h.start = m.start AND h.num >= m.maxn""",
    "q6": """SELECT seller, avg(price) FROM (
                 SELECT *, row_number() OVER (PARTITION BY seller ORDER BY bid_time DESC) AS place
                 FROM (SELECT *, row_number() OVER (
                         PARTITION BY id ORDER BY price DESC, bid_time, bid_seq) AS n FROM offers)
                 WHERE n = 1
             ) WHERE place <= 10 GROUP BY seller""",
    "q7": """SELECT bid.* FROM bid JOIN (
                 SELECT max(price) AS highest, date_time // 10000 AS number FROM bid GROUP BY number
             ) ON price = highest AND date_time // 10000 = number
             WHERE (number + 1) * 10000 <= (SELECT ms FROM input_end)""",
    "q8": """SELECT DISTINCT p.id, p.name, p.date_time // 10000 * 10000
             FROM persons p JOIN auctions a ON p.id = a.seller
                 AND p.date_time // 10000 = a.date_time // 10000""",
    "q9": """SELECT id, item_name, initial_bid, reserve, date_time, expires, seller, category,
                    auction, bidder, price, channel, url, bid_time, extra
             FROM (SELECT *, row_number() OVER (
                     PARTITION BY id ORDER BY price DESC, bid_time, bid_seq) AS n FROM offers)
             WHERE n = 1""",
    "q10": """SELECT strftime(make_timestamp(date_time * 1000), '%Y-%m-%d %H:%M'), * FROM bid""",
    "q11": """SELECT bidder, count(*), min(date_time), max(date_time) + 10000 FROM (
                  SELECT *, sum(is_new) OVER (PARTITION BY bidder ORDER BY date_time) AS session
                  FROM (SELECT *, CASE WHEN date_time - lag(date_time) OVER (
                          PARTITION BY bidder ORDER BY date_time) <= 10000 THEN 0 ELSE 1 END
                          AS is_new FROM bid)
              ) GROUP BY bidder, session HAVING max(date_time) < (SELECT ms FROM input_end)""",
    "q13": """SELECT auction, bidder, price, date_time, value
              FROM bid JOIN side_input ON auction % 10000 = key""",
    "q14": """SELECT auction, bidder, (0.908 * price)::VARCHAR,
                     CASE WHEN hour >= 8 AND hour <= 18 THEN 'dayTime'
                          WHEN hour <= 6 OR hour >= 20 THEN 'nightTime' ELSE 'otherTime' END,
                     date_time, extra, length(extra) - length(replace(extra, 'c', ''))
              FROM b WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": "SELECT * EXCLUDE (channel, minute) FROM statistics WHERE channel IS NULL",
    "q16": "SELECT * FROM statistics WHERE channel IS NOT NULL",
    "q17": """SELECT auction, day, count(*),
                     count(*) FILTER (WHERE price < 10000),
                     count(*) FILTER (WHERE price >= 10000 AND price < 1000000),
                     count(*) FILTER (WHERE price >= 1000000),
                     min(price), max(price), avg(price), sum(price)::BIGINT
              FROM b GROUP BY auction, day""",
    "q18": """SELECT * EXCLUDE (seq, n) FROM (SELECT *, row_number() OVER (
                  PARTITION BY bidder, auction ORDER BY date_time DESC, seq DESC) AS n FROM bids)
              WHERE n = 1""",
    "q19": """SELECT * EXCLUDE (seq) FROM (SELECT *, row_number() OVER (
                  PARTITION BY auction ORDER BY price DESC, date_time, seq) AS n FROM bids)
              WHERE n <= 10""",
    "q20": """SELECT bid.*, item_name, initial_bid, reserve, a.date_time, expires, seller, category
              FROM bid JOIN auctions a ON auction = id WHERE category = 10""",
    "q21": """SELECT auction, bidder, price, channel, CASE
                  WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
                  WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
                  ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
              FROM bid WHERE channel_id != ''""",
    "q22": """SELECT auction, bidder, price, channel, nullif(split_part(url, '/', 4), ''),
                     nullif(split_part(url, '/', 5), ''), nullif(split_part(url, '/', 6), '')
              FROM bid""",
}


def connect(events: Iterable[Event], folder: Path) -> duckdb.DuckDBPyConnection:
    """Return a database with the events as tables; ``folder`` gets a file of each."""
    connection = duckdb.connect()
    lines: dict[str, list[bytes]] = {topic: [] for topic in TABLES}
    for seq, event in enumerate(events):
        row = {**msgspec.structs.asdict(event.value), "seq": seq}
        lines[event.topic].append(msgspec.json.encode(row))
    for topic, columns in TABLES.items():
        file = folder / f"{topic}.json"
        file.write_bytes(b"\n".join(lines[topic]))
        connection.execute(f"CREATE TABLE {topic} ({columns}, seq BIGINT)")
        connection.execute(f"COPY {topic} FROM '{file}' (FORMAT json)")
    connection.execute("CREATE TABLE side_input (key BIGINT, value VARCHAR)")
    connection.executemany("INSERT INTO side_input VALUES (?, ?)", list(SIDE_INPUT.items()))
    connection.execute(VIEWS)
    return connection


def rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[Row]:
    """Return the rows of a query, such as ``"q4"``."""
    found: list[Row] = connection.execute(QUERIES[query]).fetchall()
    return found
