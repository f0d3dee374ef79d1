"""One browser, one shop and one page for all tests of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.chromium import chromium
from tests.browser.pages import WAIT_MS, Looks, Opened, Opens
from tests.browser.shop import Shop, planted, running_shop
from tests.unhurried import no_silence  # noqa: F401  for this folder


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with running_shop(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One for a file: while it is open, no other loop of asyncio can run in this thread.

    A scope of the package would be that of the session, because the folder is not a package.
    """
    found = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found.executable,
            args=list(found.arguments),
            env=found.environment(tmp_path_factory.mktemp("home")),
        )
        expect.set_options(timeout=WAIT_MS)
        yield browser
        browser.close()


@pytest.fixture
def opens(browser: Browser, shop: Shop) -> Iterator[Opens]:
    """Opens pages for one test."""
    opened = Opened(browser, shop.address)
    yield opened.open
    opened.check()


@pytest.fixture(scope="module")
def page(browser: Browser, shop: Shop) -> Iterator[Page]:
    """One that has been open for a while."""
    opened = Opened(browser, shop.address)
    page = opened.open()
    yield page
    page.close()
    opened.check()


@pytest.fixture
def looks(page: Page) -> Looks:
    """Looks a key up in a store, and reads the answer."""

    def check(store: str, key: str, **fields: str) -> str:
        page.select_option("#store", store)
        page.fill("#key", key)
        for name, value in fields.items():
            page.fill(f"#{name}", value)
        page.click("#look button")
        expect(page.locator("#found > *").first).not_to_have_text("looking …")
        for name in fields:
            page.fill(f"#{name}", "")
        return page.inner_text("#found")

    return check


@pytest.fixture
def plants(page: Page, shop: Shop) -> Iterator[Callable[[int], None]]:
    """Adds an instance that reports a restore, and removes it afterwards."""
    yield lambda remaining: shop.plant(planted(remaining))
    shop.plant(None)
    expect(page.locator("#tasks tbody tr")).to_have_count(9)
