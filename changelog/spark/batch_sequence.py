"""Whether a batch follows the batches that a view has, so that no changes are missing.

A checkpoint numbers its batches from 0, and Spark repeats the last one after a crash. So a batch
has the number that the view records, or the next number, or a lower one if the query was started
again from the beginning. A higher number means that the view is older than the checkpoint: it was
deleted, or restored from a backup.

Earlier versions did not record batches without changes, so the number in their views is not checked
until the first batch has recorded its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from logstate.contracts.errors import RestoreError


class RecordedBatch(Protocol):
    """The last batch of a view."""

    @property
    def batch_id(self) -> int: ...
    @property
    def notes_every_batch(self) -> bool: ...


def check_follows(path: Path, noted: RecordedBatch | None, batch_id: int) -> None:
    """Raise RestoreError if batches between the view's last one and ``batch_id`` are missing.

    ``noted`` is None if the view does not exist yet.

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
