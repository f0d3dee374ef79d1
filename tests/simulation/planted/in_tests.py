"""A plugin of pytest that plants the bug which the environment names, for bugs that tests find."""

from __future__ import annotations

import os
from contextlib import ExitStack

from tests.simulation.planted.bug import planted
from tests.simulation.planted.table import BUGS, VARIABLE

#: a block that nothing leaves but the end of the tests
_block = ExitStack()


def pytest_configure() -> None:
    _block.enter_context(planted(BUGS[os.environ[VARIABLE]]))


def pytest_unconfigure() -> None:
    _block.close()
