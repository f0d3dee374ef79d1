"""Writes ``llms.txt``, a list of the pages, and ``llms-full.txt``, the text of all pages.

``llms.txt`` has a line per page, in the order of the navigation: its title, its address and its
purpose, which is the first paragraph of the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders.text import TextBuilder
from sphinx.writers.text import TextWriter


def pages_by_caption(app: Sphinx) -> Iterator[tuple[str, list[str]]]:
    """Yield each caption of the navigation with its pages, and theirs."""
    root = app.env.get_doctree(app.config.root_doc)
    for toctree in root.findall(addnodes.toctree):
        yield (
            toctree["caption"],
            [one for entry in toctree["includefiles"] for one in _with_pages_below(app, entry)],
        )


def _with_pages_below(app: Sphinx, page: str) -> Iterator[str]:
    yield page
    for below in app.env.toctree_includes.get(page, ()):
        yield from _with_pages_below(app, below)


def title_of(app: Sphinx, page: str) -> str:
    """Return the title of a page as text."""
    return app.env.titles[page].astext()


def purpose_of(app: Sphinx, page: str) -> str:
    """Return the first paragraph of a page as one line."""
    first = next(app.env.get_doctree(page).findall(nodes.paragraph))
    return " ".join(first.astext().split())


def write(app: Sphinx, error: Exception | None) -> None:
    """Write both files when the pages are written."""
    if error is not None or app.builder.format != "html":
        return
    index, full = [f"# {app.config.project}", "", f"> {purpose_of(app, app.config.root_doc)}"], []
    texts = TextBuilder(app, app.env)
    for caption, pages in pages_by_caption(app):
        index += ["", f"## {caption}", ""]
        for page in pages:
            address = app.builder.get_target_uri(page)
            index.append(f"- [{title_of(app, page)}]({address}): {purpose_of(app, page)}")
            full.append(_text_of(app, texts, page))
    folder = Path(app.outdir)
    (folder / "llms.txt").write_text("\n".join(index) + "\n", encoding="utf-8")
    (folder / "llms-full.txt").write_text("\n\n".join(full), encoding="utf-8")


def _text_of(app: Sphinx, texts: TextBuilder, page: str) -> str:
    """Return a page as text; one that autodoc has filled is rendered, others are their source."""
    source = Path(app.env.doc2path(page)).read_text(encoding="utf-8")
    if "{eval-rst}" not in source:
        return source
    texts.secnumbers = {}
    writer = TextWriter(texts)
    writer.document = app.env.get_and_resolve_doctree(page, app.builder)
    writer.translate()
    return str(writer.output)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the function."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
