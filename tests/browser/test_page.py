"""The page of an instance in a real browser: what somebody who looks at it sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from starlette.applications import Starlette
from starlette.routing import Mount

from logstate.contracts.serving import Serving
from logstate.http.server import Server
from tests.browser.chromium import chromium
from tests.browser.shop import (
    DAY_MS,
    MANY,
    PARTITIONS,
    STRANGER,
    TOKEN,
    Shop,
    planted,
    running_shop,
)
from tests.patience import PATIENCE_S, until
from tests.unhurried import no_silence  # noqa: F401  for this module

pytestmark = pytest.mark.slow

WAIT_MS = int(PATIENCE_S * 1_000)
#: how a browser writes down that it was refused, which is what some of these are about
REFUSED = "Failed to load resource: "
#: the shortest time over which the page tells a rate
SHORTEST_S = 0.7

SHOW = """isHidden => {
  Object.defineProperty(document, "hidden", {value: isHidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""

#: a rate is written for some seconds only: what is written is kept until somebody looks
KEEP = """() => {
  globalThis.kept = {records: [], latency: []};
  for (const [name, texts] of Object.entries(kept)) {
    const keep = () => texts.push(document.querySelector(`#${name} b`).innerText);
    keep();
    new MutationObserver(keep).observe(
      document.querySelector(`#${name}`), {subtree: true, childList: true, characterData: true});
  }
}"""

Opens = Callable[..., Page]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with running_shop(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One for the module: while it is open, no other loop of asyncio can run in this thread."""
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
        page.on("console", lambda told: self._client_errors.append(told.text))
        page.on("pageerror", lambda error: self._client_errors.append(str(error)))
        page.on("request", lambda request: self._asked.add(urlsplit(request.url).hostname))
        page.goto(address or self._address)
        if token:
            page.fill("#token", token)
            page.click("#entry button")
        return page

    def check(self) -> None:
        """Nothing was complained of, and nobody else was asked."""
        assert not [one for one in self._client_errors if not one.startswith(REFUSED)]
        assert self._asked == {"127.0.0.1"}


@pytest.fixture
def opens(browser: Browser, shop: Shop) -> Iterator[Opens]:
    """Opens pages that nobody else uses."""
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
def looks(page: Page) -> Callable[..., str]:
    """Looks a key up in a store, and reads what is found."""

    def look(store: str, key: str, **fields: str) -> str:
        page.select_option("#store", store)
        page.fill("#key", key)
        for name, value in fields.items():
            page.fill(f"#{name}", value)
        page.click("#look button")
        expect(page.locator("#found > *").first).not_to_have_text("looking …")
        for name in fields:
            page.fill(f"#{name}", "")
        return page.inner_text("#found")

    return look


def cells(page: Page, table: str, row: str) -> list[str]:
    found = page.locator(f"#{table} tbody tr", has_text=row).first
    return found.locator("td").all_inner_texts()


def kept(page: Page, name: str) -> list[float]:
    """Every figure that was written there since ``KEEP``; those that are not known left out."""
    texts = (text.removesuffix(" ms").replace(",", "") for text in page.evaluate("kept")[name])
    return [float(text) for text in texts if text != "–"]


def test_the_token_is_asked_for_and_kept_in_the_tab_alone(opens: Opens) -> None:
    page = opens(token="")
    expect(page.locator("#entry")).to_be_visible()
    expect(page.locator("#tasks")).to_be_hidden()
    page.fill("#token", "another one")
    page.click("#entry button")
    expect(page.locator("#refused")).to_have_text("The instance has another token.")
    assert page.evaluate("sessionStorage.length") == 0
    page.fill("#token", TOKEN)
    page.click("#entry button")
    expect(page.locator("#tasks")).to_be_visible()
    assert TOKEN not in page.url
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    page.reload()
    expect(page.locator("#tasks")).to_be_visible()
    expect(page.locator("#entry")).to_be_hidden()


def test_state_health_and_totals_are_written(page: Page, shop: Shop) -> None:
    expect(page.locator("#application")).to_have_text("shop")
    expect(page).to_have_title("shop · running")
    expect(page.locator("#live")).to_contain_text("it runs, or will")
    expect(page.locator("#ready")).to_have_text(re.compile(r"^ready\d tasks can be read$"))
    expect(page.locator("#records span").nth(1)).to_have_text("9 of 9 tasks running")
    expect(page.locator("#lag b")).to_have_text("0")
    expect(page.locator("#dropped b")).to_have_text("1")
    expect(page.locator("#dead b")).to_have_text("1")
    expect(page.locator("#records b")).to_have_text("0")
    page.evaluate(KEEP)
    for number in range(50):
        shop.order(f"customer-{number}", "tea", DAY_MS + 70)
    rates = lambda: [one for one in kept(page, "records") if one > 0]  # noqa: E731
    until(rates)
    # Each order is a record of two tasks.
    assert 0 < max(rates()) <= 2 * 50 / SHORTEST_S
    until(lambda: [one for one in kept(page, "latency") if 0 < one < PATIENCE_S * 1_000])
    expect(page.locator("#records polyline")).to_have_attribute("points", re.compile(r"\d,"))


def test_every_task_and_instance_has_a_row(page: Page, shop: Shop) -> None:
    expect(page.locator("#tasks tbody tr")).to_have_count(3 * PARTITIONS)
    addresses = {app._presence.address.removeprefix("http://") for app in shop.apps}  # type: ignore[union-attr]

    def told(number: int) -> tuple[str, str, str, set[str]]:
        task, stage, _, lag, owner, standby = cells(page, "tasks", f"0_{number}")
        return task, stage, lag, {owner, standby.removesuffix(", 0")}

    tasks = range(PARTITIONS)
    caught_up = [(f"0_{number}", "running", "0", addresses) for number in tasks]
    until(lambda: [told(number) for number in tasks] == caught_up)
    expect(page.locator("#instances tbody tr")).to_have_count(2)
    for rack in ("eu-1a", "eu-1b"):
        row = cells(page, "instances", rack)
        assert row[0].removesuffix("\nthis one") in addresses
        assert row[1:4] == [rack, "0.1.0", "1"]
        assert row[10].endswith("s ago")
    of = [[int(one) for one in cells(page, "instances", rack)[4:6]] for rack in ("eu-1a", "eu-1b")]
    assert [sum(both) for both in zip(*of, strict=True)] == [9, 9]
    assert sum(int(cells(page, "instances", rack)[9]) for rack in ("eu-1a", "eu-1b")) == 1


def test_the_picture_has_its_figures_at_the_frames(page: Page) -> None:
    told = page.locator("#picture .told")
    expect(told).to_have_count(6)  # two lines of each that has tasks: the global one has none
    expect(told.first).to_have_text(re.compile(r"^[\d.,]+/s · running$"))
    for number in (1, 3, 5):
        expect(told.nth(number)).to_have_text("lag 0")
    expect(page.locator("#picture .frame.good")).to_have_count(3)
    expect(page.locator("#picture text", has_text="sales-per-hour")).to_be_visible()
    frame = page.locator("#picture .frame").first.bounding_box()
    line = told.first.bounding_box()
    assert frame is not None
    assert line is not None
    assert abs(frame["x"] - line["x"]) < 10
    assert 0 < frame["y"] - line["y"] < 60


def test_a_key_is_looked_up_in_every_kind_of_store(looks: Callable[..., str]) -> None:
    sold = looks("sales", "milk")
    assert re.search(r"\n12\t\d+ \(1970-01-02T00:00:00.0\d\dZ\)", sold)
    assert re.search(r"Partition \d, answered by http://127.0.0.1:\d+; it holds shop-by-", sold)
    assert f"{DAY_MS} (1970-01-02T00:00:00.000Z)\t12\t" in looks("sales-per-hour", "milk")
    assert looks("sales-per-hour", "milk", start="0").startswith("the row does not exist")
    assert f"\t{DAY_MS} (1970-01-02T00:00:00.000Z)\t" in looks("visits", "ada")
    assert looks("visits", "ada", to="5").startswith("There are no rows of this key.")
    assert looks("names", "ada").startswith("value\ttimestamp\nAda\t1 (")
    assert f"\n{MANY}\t" in looks("amounts", "7")  # not rounded
    assert looks("amounts", "8").startswith("the row does not exist")


@pytest.mark.parametrize("product", ["changes", "..", "a/b c?", "é&<b>"])
def test_a_key_may_look_like_a_path(looks: Callable[..., str], product: str) -> None:
    assert looks("sales", product).startswith("value\ttimestamp\n1\t")


def test_a_wrong_key_gets_the_reason_as_text(looks: Callable[..., str]) -> None:
    found = looks("amounts", STRANGER)
    assert found.startswith(f"400: '{STRANGER}' is not a key of store 'amounts', whose keys are")
    assert looks("amounts", "7", partition="99").startswith("400: store 'amounts' has no")


@pytest.fixture
def plants(page: Page, shop: Shop) -> Iterator[Callable[[int], None]]:
    """Has one more instance tell that it restores; it is gone afterwards."""
    yield lambda remaining: shop.plant(planted(remaining))
    shop.plant(None)
    expect(page.locator("#tasks tbody tr")).to_have_count(9)


def test_what_others_tell_is_text_and_a_restore_is_seen(
    page: Page, plants: Callable[[int], None]
) -> None:
    expect(page.locator("#tasks tbody tr")).to_have_count(9)
    plants(9_000)
    expect(page.locator("#tasks tbody tr")).to_have_count(12)
    expect(page.locator("#lag b")).to_have_text("1,234,567")
    expect(page.locator("#lag span").nth(1)).to_have_text("not known of 2 tasks")
    plants(3_000)
    row = page.locator("#tasks tbody tr", has_text=f"0_{PARTITIONS}")
    stage = row.locator("td").nth(1)
    expect(stage).to_contain_text("3,000 left")
    plants(3_000)  # a look of the page after the first, so that there is a time to divide by
    expect(stage).to_have_text(re.compile(r"^restoring3,000 left[\d.,]+/s, \d+ s$"))
    assert row.locator("progress").evaluate("one => one.value") == pytest.approx(2 / 3)
    expect(page.locator("#picture .told").first).to_contain_text("no owner")
    expect(page.locator("#picture .frame.bad")).to_have_count(1)
    assert cells(page, "tasks", "0_4")[1::3] == ["no owner", "–"]
    assert "10.0.0.9:8080, 17" in cells(page, "tasks", "0_0")[5].splitlines()
    strange = page.locator("#instances tbody tr", has_text="10.0.0.9:8080").locator("td")
    assert strange.all_inner_texts()[1:3] == [STRANGER, "<script>document.title=1</script>"]
    assert page.locator("img").count() == 0
    expect(page).to_have_title("shop · running")


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_on_a_phone_nothing_is_wider_than_the_screen(opens: Opens, colours: str) -> None:
    page = opens(viewport={"width": 390, "height": 844}, color_scheme=colours)
    expect(page.locator("#picture svg")).to_be_visible()
    page.select_option("#store", "sales")
    page.fill("#key", "tea")
    page.click("#look button")
    expect(page.locator("#found table")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(245, 247, 249)", "dark": "rgb(16, 21, 27)"}[colours]


def test_a_page_that_nobody_sees_asks_nothing(opens: Opens) -> None:
    page = opens()
    expect(page.locator("#tasks")).to_be_visible()
    page.clock.install()
    with page.expect_response("**/status"):
        page.clock.run_for(1_000)
    page.evaluate(SHOW, True)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(10_000)
    assert asked == []
    with page.expect_response("**/status"):
        page.evaluate(SHOW, False)


def test_the_page_works_below_a_path_of_another_service(opens: Opens, shop: Shop) -> None:
    server = Server(Serving("127.0.0.1:0"))
    server.start(Starlette(routes=[Mount("/mounted", shop.apps[0].asgi())]))
    try:
        page = opens(f"{server.address}/mounted")
        assert page.url == f"{server.address}/mounted/"
        expect(page.locator("#tasks tbody tr")).to_have_count(9)
        expect(page.locator("#picture .told")).to_have_count(6)
    finally:
        server.stop()
    expect(page.locator("#pulse")).to_contain_text("no answer for")
