"""How far a stream is behind, from the progress that Spark reports."""

from __future__ import annotations

import json
from typing import Any


def offsets_behind(progress: Any) -> dict[str, float]:
    """Return the number of offsets between a query and the ends of its logs.

    The names are those of Spark's Kafka source. ``progress`` is ``query.lastProgress``, an object
    or, before Spark 4, a dict. Offsets are not records, because transaction markers have offsets
    too. The result is empty while the ends are unknown: before the first batch, and in Spark
    before 4.2.

    >>> offsets_behind({"sources": [
    ...     {"description": "logstate",
    ...      "endOffset": '{"t": {"0": 5, "1": 7}}', "latestOffset": '{"t": {"0": 9, "1": 7}}'}]})
    {'minOffsetsBehindLatest': 0, 'maxOffsetsBehindLatest': 4, 'avgOffsetsBehindLatest': 2.0}
    """
    reported = json.loads(progress.json) if hasattr(progress, "json") else progress
    behind: list[int] = []
    for source in (reported or {}).get("sources", ()):
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        behind += [max(0, latest[log] - at) for log, at in end.items() if log in latest]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }


def _offsets(reported: Any) -> dict[tuple[str, str], int]:
    found = json.loads(reported) if isinstance(reported, str) else reported
    return {
        (topic, partition): offset
        for topic, partitions in (found or {}).items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
        if isinstance(offset, int)
    }
