"""How every command of the benchmark describes itself."""

from __future__ import annotations

import argparse


def parser_of(prog: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the module's docstring, in the lines in which it is written."""
    return argparse.ArgumentParser(
        prog=prog,
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
