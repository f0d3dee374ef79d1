"""Texts in the project that follow from others, so that nobody writes them by hand.

    python -m tests.generated_texts    writes them anew, as `./dev fix` does

The table of packages in ARCHITECTURE.md, the list of packages in pyproject.toml, what
type checkers are shown of the facade's table, and the tables of docs/joins.md, docs/metrics.md
and docs/settings.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import logstate
from tests import architecture_page, joins_page, metrics_page, settings_page
from tests.built_wheel import FOLDERS, ROOT


def packages(text: str) -> str:
    """pyproject.toml with the folders that are there as its packages."""
    listed = "".join(f'    "{name}",\n' for name in sorted(_packages()))
    return re.sub(
        r"^packages = \[\n.*?^\]$", f"packages = [\n{listed}]", text, flags=re.DOTALL | re.MULTILINE
    )


def _packages() -> Iterator[str]:
    for folder, target in FOLDERS.items():
        for path in (ROOT / folder).rglob("__init__.py"):
            inside = path.parent.relative_to(ROOT / folder)
            yield ".".join([*Path(target).parts, *inside.parts])


def facade(text: str) -> str:
    """The facade with an import of each name of its table, for type checkers only."""
    # As the linter has them: classes before functions, capitals like other letters.
    names = sorted(logstate._MODULES, key=lambda name: (name.islower(), name.lower()))
    table = sorted(((logstate._MODULES[name], name) for name in names), key=lambda one: one[0])
    lines = "".join(f"    from {module} import {name} as {name}\n" for module, name in table)
    start = "if TYPE_CHECKING:\n"
    before, _, rest = text.partition(start)
    after = re.sub(r"\A(?:    .*\n)+", "", rest)
    return f"{before}{start}{lines}{after}"


GENERATED: dict[str, Callable[[str], str]] = {
    "ARCHITECTURE.md": architecture_page.rendered,
    "pyproject.toml": packages,
    "logstate/__init__.py": facade,
    "docs/joins.md": joins_page.rendered,
    "docs/metrics.md": metrics_page.rendered,
    "docs/settings.md": settings_page.rendered,
}


if __name__ == "__main__":
    for name, rendered in GENERATED.items():
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        if rendered(text) != text:
            path.write_text(rendered(text), encoding="utf-8")
            print(f"wrote {name}")
