"""Pages that tests open and read."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, expect

from tests.browser.shop import TOKEN
from tests.patience import PATIENCE_S

WAIT_MS = int(PATIENCE_S * 1_000)
#: how a browser writes down that it was refused, which is what some tests are about
REFUSED = "Failed to load resource: "

Opens = Callable[..., Page]
Looks = Callable[..., str]


class Opened:
    """Pages that were opened; what they complained of, and whom they asked."""

    def __init__(self, browser: Browser, address: str) -> None:
        self._browser = browser
        self._address = address
        self._client_errors: list[str] = []
        self._asked: set[str | None] = set()

    def open(self, address: str = "", token: str = TOKEN, **settings: object) -> Page:
        """The page, with the token given where there is one."""
        page = self._browser.new_page(**settings)  # type: ignore[arg-type]
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda message: self._client_errors.append(message.text))
        page.on("pageerror", lambda error: self._client_errors.append(str(error)))
        page.on("request", lambda request: self._asked.add(urlsplit(request.url).hostname))
        page.goto(address or self._address)
        if token:
            page.fill("#token", token)
            page.click("#entry button")
        return page

    def check(self) -> None:
        """The page reported no error, and requested nothing from another host."""
        assert not [one for one in self._client_errors if not one.startswith(REFUSED)]
        assert self._asked == {"127.0.0.1"}


def cells(page: Page, table: str, row: str) -> list[str]:
    found = page.locator(f"#{table} tbody tr", has_text=row).first
    return found.locator("th, td").all_inner_texts()


def show_everything(page: Page) -> None:
    """Request the parts that are shown on request only."""
    page.select_option("#store", "sales-per-hour")
    page.fill("#key", "tea")
    page.click("#look button")
    expect(page.locator("#found table")).to_be_visible()
    page.click("#found summary")
    page.click("#browse button")
    expect(page.locator("#read table")).to_be_visible()
    page.click("#letters button")
    expect(page.locator("#failed table")).to_be_visible()
    page.locator("#failed summary").first.click()
