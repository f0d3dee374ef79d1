"""Whether a batch follows those that a view has: no change between them was lost. Pure.

A checkpoint numbers its batches from 0, and Spark repeats the last one after a crash. So what comes
is the number that the view has noted or the next one, or, of a query that was started anew from the
beginning, one of before. A later one means that the view is older than the checkpoint: it was
removed, or restored from a backup.

Views that were written before batches without changes were noted tell nothing by their number,
until the first batch has noted its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from logstate.contracts.errors import RestoreError


class RecordedBatch(Protocol):
    """What a view says of the batch that it had last."""

    @property
    def batch_id(self) -> int: ...
    @property
    def notes_every_batch(self) -> bool: ...


def check_follows(path: Path, noted: RecordedBatch | None, batch_id: int) -> None:
    """``noted`` is None where there is no view yet.

    Raises RestoreError if batches are missing between.

    >>> check_follows(Path("/data/spend"), None, 0)
    """
    if noted is not None and not noted.notes_every_batch:
        return
    newest = -1 if noted is None else noted.batch_id
    if batch_id <= newest + 1:
        return
    had = "holds no view yet" if noted is None else f"has taken in batch {newest}"
    missing = f"batch {newest + 1}"
    if batch_id > newest + 2:
        missing = f"batches {newest + 1} to {batch_id - 1}"
    raise RestoreError(
        f"{path} {had}, and batch {batch_id} of the query came, so the changes of {missing} would"
        " be missing in the view. It was removed, or is an older copy, or the checkpoint is that of"
        " another one. Start the query with a new checkpoint and a new directory, from the earliest"
        " offsets"
    )
