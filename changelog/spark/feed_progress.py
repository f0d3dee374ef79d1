"""How far a stream is behind, of the progress that Spark reports."""

from __future__ import annotations

import json
from typing import Any


def offsets_behind(progress: Any) -> dict[str, float]:
    """What Spark's own Kafka source calls so: offsets between a query and the end of its logs.

    ``progress`` is ``query.lastProgress``, as an object or as the dict that it was before Spark 4.
    Offsets are not records: marks of transactions are among them. Empty while the ends are not
    known, before the first batch and in Spark before 4.2.

    >>> offsets_behind({"sources": [
    ...     {"description": "logstate",
    ...      "endOffset": '{"t": {"0": 5, "1": 7}}', "latestOffset": '{"t": {"0": 9, "1": 7}}'}]})
    {'minOffsetsBehindLatest': 0, 'maxOffsetsBehindLatest': 4, 'avgOffsetsBehindLatest': 2.0}
    """
    told = json.loads(progress.json) if hasattr(progress, "json") else progress
    behind: list[int] = []
    for source in (told or {}).get("sources", ()):
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        behind += [max(0, latest[log] - at) for log, at in end.items() if log in latest]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }


def _offsets(told: Any) -> dict[tuple[str, str], int]:
    found = json.loads(told) if isinstance(told, str) else told
    return {
        (topic, partition): offset
        for topic, partitions in (found or {}).items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
        if isinstance(offset, int)
    }
