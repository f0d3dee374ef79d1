"""The page without a mouse, on a phone, in both themes, and with a screen reader."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.pages import Looks, Opens, show_everything
from tests.browser.shop import TOKEN

pytestmark = pytest.mark.slow

AXE = Axe()


def test_the_page_can_be_used_with_the_keyboard_alone(opens: Opens) -> None:
    page = opens()
    expect(page.locator("#look")).to_be_visible()
    page.reload()  # the token is in the tab, and the focus at the beginning
    expect(page.locator("#look")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    expect(page.locator(".skip")).to_be_in_viewport()
    page.keyboard.press("Enter")
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.id || document.activeElement.ariaLabel")
        )
        if reached[-1] == "key":
            page.keyboard.type("ada")  # of the first store, which has visits
            page.keyboard.press("Enter")
        if reached[-1] == "count":
            page.keyboard.press("Enter")
            break
    assert [
        one for one in reached if one in ("Tasks", "Operators", "Instances", "store", "key")
    ] == ["Tasks", "Operators", "Instances", "store", "key"]
    expect(page.locator("#found table")).to_be_visible()
    expect(page.locator("#read table")).to_be_visible()


def test_every_header_of_a_table_says_what_it_is_the_header_of(page: Page, looks: Looks) -> None:
    looks("sales", "tea")
    scopes = page.locator("table").evaluate_all(
        "all => all.flatMap(one => [...one.querySelectorAll('th')].map("
        "th => [th.closest('thead') !== null, th.scope]))"
    )
    assert len(scopes) > 30
    assert {tuple(one) for one in scopes} == {(True, "col"), (False, "row")}


def findings(page: Page) -> list[str]:
    """What axe says of the page in both themes, if it is serious or critical."""
    found = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        found += [
            f"{theme}: {one['id']}: {node['html'][:200]} {node['failureSummary']}"
            for one in AXE.run(page).response["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]
    return found


@pytest.mark.parametrize("width", [1440, 390])
def test_axe_finds_nothing_serious_in_any_view(
    opens: Opens, plants: Callable[[int], None], width: int
) -> None:
    page = opens(token="", viewport={"width": width, "height": 900})
    page.fill("#token", "another one")
    page.click("#entry button")
    expect(page.locator("#refused")).to_be_visible()
    assert findings(page) == []
    page.fill("#token", TOKEN)
    page.click("#entry button")
    plants(5_000)
    expect(page.locator("#restore")).to_be_visible()
    show_everything(page)
    assert findings(page) == []
    page.route("**/status", lambda route: route.abort())
    expect(page.locator("#pulse")).to_contain_text("no answer for")
    assert findings(page) == []


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_on_a_phone_nothing_is_wider_than_the_screen(opens: Opens, colours: str) -> None:
    page = opens(viewport={"width": 390, "height": 844}, color_scheme=colours)
    expect(page.locator("#picture svg")).to_be_visible()
    show_everything(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    box = page.locator("#picture")
    assert box.evaluate("one => one.scrollWidth <= one.clientWidth"), "the diagram does not scroll"
    size = page.locator("#picture text").first.evaluate(
        "one => one.getBoundingClientRect().height / one.getBBox().height"
    )
    assert size > 0.6, "and its texts are not too small to read"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(245, 247, 249)", "dark": "rgb(16, 21, 27)"}[colours]


def test_a_picture_that_is_drawn_again_has_its_figures(opens: Opens) -> None:
    page = opens(viewport={"width": 390, "height": 844})
    expect(page.locator("#picture .report")).to_have_count(6)
    page.route("**/status", lambda route: route.abort())
    expect(page.locator("#pulse")).to_contain_text("no answer for")
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.locator("#picture")).not_to_have_class("narrow")
    expect(page.locator("#picture .report")).to_have_count(6)
