"""`python -m tests.stored_formats FOLDER`: write the stores of which no folder holds one yet.

``FOLDER`` is the next number, `2` after `1`. What is there is never written again: it is what an
earlier version wrote. A kind of store that is new is added to `tests/unit/changelog/store_kinds.py`
or `tests/stored_formats/stores.py` first; a test names those that no folder holds. A format that is
changed on purpose gets a new kind beside the old one, and both stay readable.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.stored_formats.stores import INPUTS, STORES
from tests.stored_formats.writing import write
from tests.stored_formats.written import (
    FOLDERS,
    folders,
    pack_state,
    stores_in,
    write_inputs,
    write_store,
)


def main(number: str) -> int:
    """Write a folder; returns the exit status."""
    FOLDERS.mkdir(exist_ok=True)
    there = {name for folder in folders() for name in stores_in(folder)}
    missing = [name for name in STORES if name not in there]
    if not missing:
        print("every store has its fixture")
        return 0
    folder = FOLDERS / str(int(number))
    folder.mkdir()
    with tempfile.TemporaryDirectory() as scratch:
        written = write(missing, INPUTS, Path(scratch))
        pack_state(folder, written.state)
    write_inputs(folder, INPUTS)
    for name, store in written.stores.items():
        write_store(folder, name, store)
    print(f"{folder.name}: {', '.join(missing)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
