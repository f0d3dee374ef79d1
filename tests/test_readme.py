"""The README's examples are run as they stand."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()
_RUNNABLE = re.compile(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", re.DOTALL)


def test_the_sixty_second_example_prints_what_the_readme_says() -> None:
    examples = _RUNNABLE.findall(README)
    assert examples, "the README has lost its runnable example"
    for code, expected in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), {"__name__": "readme"})

        assert printed.getvalue() == "".join(
            line.removeprefix("    ") for line in expected.splitlines(keepends=True)
        )


def test_every_python_block_compiles() -> None:
    blocks = re.findall(r"```python[^\n]*\n(.*?)```", README, re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        compile(block, "README.md", "exec")
