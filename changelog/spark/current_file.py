"""The file ``CURRENT`` of a view: which version is the newest, and how far it got.

It is replaced by an atomic rename, after what it names is complete, so a reader sees a whole
version or the next one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_NAME = "CURRENT"


class CurrentFile:
    """The one of a view's directory. ``positions`` are by partition, whose numbers are text there.

    >>> CurrentFile(Path("/data/spend")).read() is None
    True
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> dict[str, Any] | None:
        """What was published last, or None before the first batch."""
        try:
            found = json.loads((self._folder / _NAME).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        found["positions"] = {int(n): position for n, position in found["positions"].items()}
        return dict(found)

    def publish(self, state: Mapping[str, Any]) -> None:
        """Replace it, on the disk before this returns."""
        positions = {str(n): position for n, position in sorted(state["positions"].items())}
        draft = self._folder / f"{_NAME}.draft"
        with draft.open("w", encoding="utf-8") as file:
            json.dump({**state, "positions": positions}, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._folder / _NAME)

    def missing(self) -> FileNotFoundError:
        """The error of a read before the first batch."""
        return FileNotFoundError(
            f"{self._folder} holds no view yet; has the streaming query finished its first batch?"
        )
