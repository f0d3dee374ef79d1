"""The tutorial, with the packages of this environment: its files, and its commands in their order.

`python -m tests.campaigns.first_minutes` does the same in an environment that pip fills.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns.first_minutes.newcomer import environment_of_this_python, type_steps
from tests.campaigns.first_minutes.pages import Commands, steps_of
from tests.pages import TUTORIAL


@pytest.mark.slow
@pytest.mark.spark
def test_the_commands_of_the_tutorial_print_what_it_shows(tmp_path: Path) -> None:
    steps = [
        step.without("pip install") if isinstance(step, Commands) else step
        for step in steps_of(TUTORIAL, with_spark=True)
    ]

    typed = list(type_steps(steps, tmp_path, environment_of_this_python(tmp_path)))

    assert sum("python" in one.line for one in typed) > 6
