"""The documentation site as `./dev docs` builds it."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright
from sphinx.util.inventory import InventoryFile

from tests.browser.chromium import chromium
from tests.pages import ROOT, SITE
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow  # the build takes a quarter of a minute

#: pages with everything that the site consists of: tables, code, diagrams, signatures
SAMPLE = ("index", "exactly-once", "performance", "reference/windows")
#: modules whose names in ``__all__`` are public
MODULES = (
    "logstate",
    "logstate.serdes",
    "logstate.testing",
    "logstate.topology",
    "logstate.faust",
)
#: public names of modules without ``__all__``, and of one that needs Spark
NAMES = (
    "logstate.admin.backfill.backfill",
    "logstate.changelog.spark.session",
    "logstate.changelog.spark.tables",
    "logstate.local_broker.broker.LocalBroker",
    "logstate.metrics.prometheus.export_to_prometheus",
    "logstate.topology.timestamp_extractors.record_time_or_skip",
)


class Site:
    """The built pages, and what the build printed."""

    def __init__(self, folder: Path, status: int, printed: str) -> None:
        self.folder = folder
        self.status = status
        self.printed = printed

    def documented(self) -> set[str]:
        """The names of Python with an entry."""
        with (self.folder / "objects.inv").open("rb") as file:
            inventory = InventoryFile.load(file, "", lambda *parts: "".join(parts))
        return {name for kind, names in inventory.items() if kind[:3] == "py:" for name in names}

    def pages(self) -> Iterator[tuple[str, str]]:
        for path in sorted(self.folder.rglob("*.html")):
            yield str(path.relative_to(self.folder)), path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "--fresh-env", "--quiet"]
    answer = subprocess.run(
        [*command, "--fail-on-warning", "--keep-going", "docs", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=3 * PATIENCE_S,
    )
    return Site(folder, answer.returncode, answer.stdout + answer.stderr)


def test_the_site_is_built_without_a_warning(site: Site) -> None:
    assert (site.status, site.printed) == (0, "")
    assert {path.relative_to(ROOT / "docs").with_suffix(".html") for path in SITE} <= {
        Path(name) for name, _ in site.pages()
    }


def public_names() -> Iterator[tuple[str, Any]]:
    for module in MODULES:
        loaded = importlib.import_module(module)
        for name in loaded.__all__:
            if name != "__version__":
                yield f"{module}.{name}", getattr(loaded, name)


def test_every_public_name_has_an_entry_in_the_reference(site: Site) -> None:
    documented = site.documented()
    public = dict(public_names())
    # A name of two modules has its entry in one of them.
    shown = {id(one) for name, one in public.items() if name in documented}
    missing = [name for name, one in public.items() if id(one) not in shown]
    missing += [name for name in NAMES if name not in documented]
    assert missing == [], "add each to a page of docs/reference"


def test_every_public_method_of_the_dsl_has_an_entry(site: Site) -> None:
    documented = site.documented()
    missing = [
        f"{name}.{method}"
        for name, one in public_names()
        if isinstance(one, type) and name in documented and "Error" not in name
        for method in vars(one)
        if not method.startswith("_") and callable(getattr(one, method)) and one.__doc__
        if f"{name}.{method}" not in documented and getattr(one, method).__doc__
    ]
    assert missing == []


def test_the_pages_are_read_without_a_network(site: Site) -> None:
    loaded = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"(https?:[^\"]*)\"")
    assert {name: loaded.findall(text) for name, text in site.pages() if loaded.search(text)} == {}
    assert (site.folder / "searchindex.js").stat().st_size > 100_000


def test_the_texts_for_language_models_list_every_page(site: Site) -> None:
    short = (site.folder / "llms.txt").read_text(encoding="utf-8")
    full = (site.folder / "llms-full.txt").read_text(encoding="utf-8")
    for page in SITE:
        name = str(page.relative_to(ROOT / "docs").with_suffix(""))
        if name != "index":
            assert f"({name}.html): " in short
    assert short.startswith("# logstate\n\n> ")
    assert "deduplicate_by_key(" in full
    assert "## Streams and tables" not in full.partition("# Glossary")[0]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found.executable,
            args=list(found.arguments),
            env=found.environment(tmp_path_factory.mktemp("home")),
        )
        yield browser
        browser.close()


#: of a desktop and of a phone
WIDTHS = (1440, 390)


@pytest.fixture(params=WIDTHS)
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": request.param, "height": 900})
    yield page
    page.close()


def test_axe_finds_nothing_serious_in_a_sample_of_the_pages(site: Site, page: Page) -> None:
    found = []
    for name in SAMPLE:
        page.goto((site.folder / f"{name}.html").as_uri())
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            found += [
                f"{name}, {theme}: {one['id']}: {node['html'][:200]} {node['failureSummary']}"
                for one in Axe().run(page).response["violations"]
                if one["impact"] in {"serious", "critical"}
                for node in one["nodes"]
            ]
    assert found == []


def test_no_page_is_wider_than_the_screen(site: Site, browser: Browser) -> None:
    # Each page is loaded once, and laid out for each width.
    page = browser.new_page()
    wide = {}
    for path in SITE:
        name = path.relative_to(ROOT / "docs").with_suffix(".html")
        page.goto((site.folder / name).as_uri())
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            found = page.evaluate("document.documentElement.scrollWidth")
            if found > width:
                wide[f"{name}, {width}"] = found
    page.close()
    assert wide == {}


def test_what_scrolls_in_a_page_is_reached_with_the_keyboard(site: Site, page: Page) -> None:
    page.goto((site.folder / "exactly-once.html").as_uri())
    blocks = page.locator("pre, .table-wrapper, article p:has(> img)").evaluate_all(
        "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.tabIndex)"
    )
    assert blocks
    assert set(blocks) == {0}
