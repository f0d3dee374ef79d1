"""What ARCHITECTURE.md takes from the source: the table of packages.

Between ``<!-- packages -->`` and ``<!-- /packages -->`` are the packages of the first two levels,
with the first sentence of their ``__init__``. The text of a link such as
``[Committer.commit](logstate/commit/)`` is a class, a function, a method or a constant that a
module of the package defines; `unknown_names` returns the others. Links name packages, so they
stay valid when a module is renamed or split.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.syntax import syntax

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
TOP_LEVEL = ("logstate", "topology", "changelog")
_LINK = re.compile(r"\[`?([\w.]+)`?\]\(((?:logstate|topology|changelog)/[\w/]*)\)")


def rendered(page: str) -> str:
    """Return the page with the current table of packages."""
    return between(page, "packages", "\n".join(_table()))


def unknown_names(page: str) -> Iterator[str]:
    """Yield an error for each link to a name that its package does not define."""
    for name, package in _LINK.findall(page):
        if not any(_defines(name, path) for path in sorted((ROOT / package).glob("*.py"))):
            yield f"{package} defines no {name}"


def between(page: str, mark: str, text: str) -> str:
    """Return the page with ``text`` between the two marks of this name."""
    start, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before, _, rest = page.partition(start)
    after = rest.partition(end)[2]
    return f"{before}{start}\n{text}\n{end}{after}"


def _packages() -> Iterator[Path]:
    for folder in TOP_LEVEL:
        yield ROOT / folder
        yield from sorted(path.parent for path in (ROOT / folder).glob("*/__init__.py"))


def _table() -> Iterator[str]:
    yield "| package | purpose |"
    yield "|---|---|"
    for package in _packages():
        yield f"| `{package.relative_to(ROOT)}/` | {_first_line(package / '__init__.py')} |"


def _first_line(path: Path) -> str:
    docstring = ast.get_docstring(syntax(path).tree)
    assert docstring, f"{path} has no docstring"
    first = docstring.split("\n\n")[0].replace("\n", " ")
    first = first.removeprefix(f"{path.parent.name.replace('_', ' ').capitalize()}: ")
    return first[0].upper() + first[1:]


def _defines(name: str, path: Path) -> bool:
    """Return whether a module defines a class, function, method or constant."""
    scope: list[ast.stmt] = syntax(path).tree.body
    for part in name.split("."):
        found = next((node for node in scope if part in _names(node)), None)
        if found is None:
            return False
        scope = getattr(found, "body", [])
    return True


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {node.name}
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return {target.id for target in targets if isinstance(target, ast.Name)}
