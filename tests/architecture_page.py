"""What ARCHITECTURE.md takes from the source: the table of packages.

Between ``<!-- rooms -->`` and ``<!-- /rooms -->`` are the packages with the first sentence of their
``__init__``. The text of a link such as ``[Committer.commit](logstate/commit/commit.py)`` is a
class, a function, a method or a constant that the file defines; `unknown_names` returns those that
it does not define. Links have no line numbers, which every change elsewhere in a file would change.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.syntax import syntax

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
#: folders by floor, what is above imports what is below
FLOORS = ("logstate", "topology", "changelog")
_LINK = re.compile(r"\[`?([\w.]+)`?\]\(([\w/]+\.py)\)")


def rendered(page: str) -> str:
    """The page with what is generated as it has to be today."""
    return between(page, "rooms", "\n".join(_floor_plan()))


def unknown_names(page: str) -> Iterator[str]:
    """Links to names that their files do not define."""
    for name, path in _LINK.findall(page):
        is_module = name in (Path(path).name, Path(path).stem)
        if not is_module and not _defines(name, ROOT / path):
            yield f"{path} defines no {name}"


def between(page: str, mark: str, text: str) -> str:
    """The page with a text between two marks of this name."""
    start, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before, _, rest = page.partition(start)
    after = rest.partition(end)[2]
    return f"{before}{start}\n{text}\n{end}{after}"


def _rooms() -> Iterator[Path]:
    for folder in FLOORS:
        for room in sorted({ROOT / folder, *(p.parent for p in (ROOT / folder).rglob("*.py"))}):
            if room.name != "__pycache__":
                yield room


def _floor_plan() -> Iterator[str]:
    yield "| room | what it is for |"
    yield "|---|---|"
    for room in _rooms():
        yield f"| `{room.relative_to(ROOT)}/` | {_first_line(room / '__init__.py')} |"


def _first_line(path: Path) -> str:
    docstring = ast.get_docstring(syntax(path).tree)
    assert docstring, f"{path} has no docstring"
    first = docstring.split("\n\n")[0].replace("\n", " ")
    first = first.removeprefix(f"{path.parent.name.replace('_', ' ').capitalize()}: ")
    return first[0].upper() + first[1:]


def _defines(name: str, path: Path) -> bool:
    """Whether a module defines a class, function, method or constant."""
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
