"""The text and the syntax of Python files, each read and parsed once for all tests of a process."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Syntax(NamedTuple):
    """A file as its author and as the compiler sees it."""

    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    """Of the whole tree, each once."""


@cache
def syntax(path: Path) -> Syntax:
    """What is in a file of UTF-8."""
    text = path.read_text(encoding="utf-8")
    # A tree is all new objects and no garbage. To look for some takes three times as long as to
    # parse, and in a process that holds much else far more.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        tree = ast.parse(text)
        return Syntax(text, tree, tuple(ast.walk(tree)))
    finally:
        if was_enabled:
            gc.enable()
