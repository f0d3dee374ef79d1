"""How many rows a store has at each commit: kept with the clocks of its task.

A read at the cut proves by it that compaction has taken none of them (`reading.complete_read`). As
one of the clocks, ``rows:STORE``, the number is committed with the rows, rolled back and discarded
with them, and comes back with the cut. It is known for a task that runs, not during a replay: what
a replay writes is counted in the cut already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

from logstate.changelog.rows.rows import Rows
from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.processing import TimeCell
from logstate.contracts.stores import StoreSpec

PREFIX = "rows:"
#: so many rows are counted at a start, in about a second
_COUNTED_MAX = 1_000_000


def is_counted(spec: StoreSpec) -> bool:
    """Whether commits say how many rows a store has: each row is a key of its changelog.

    Rows of windows expire without a record, those of versions and buffers are more than a key, and
    a source topic has records of others.
    """
    return spec.is_logged and spec.source_topic is None and kind_of(spec).are_rows_records


def count_rows(
    specs: Mapping[str, StoreSpec], rows_of: Mapping[str, Rows], cell_of: Callable[[str], TimeCell]
) -> None:
    """From here on, keep the number of rows of each store in its cell.

    The cut says how many there are. Where it does not, because another program or an earlier
    version committed last, they are counted once, unless they are more than a million.
    """
    for name, spec in specs.items():
        if not is_counted(spec):
            continue
        rows, cell = rows_of[name], cell_of(PREFIX + name)
        if cell.time < 0:
            total = sum(1 for _ in islice(rows.scan(), _COUNTED_MAX + 1))
            cell.time = total if total <= _COUNTED_MAX else -1
        rows.count_in(cell if cell.time >= 0 else None)


def without_counts(clocks: Mapping[str, int]) -> dict[str, int]:
    """The clocks of a task whose rows another program changes: they are counted again.

    >>> without_counts({"store:spend": 7, "rows:spend": 42})
    {'store:spend': 7}
    """
    return {name: time for name, time in clocks.items() if not name.startswith(PREFIX)}
