"""The page of an instance in a real browser: what somebody who looks at it sees."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from starlette.applications import Starlette
from starlette.routing import Mount

from logstate.contracts.serving import Serving
from logstate.http.server import Server
from tests.browser.pages import Opens, cells
from tests.browser.shop import (
    DAY_MS,
    MANY,
    PARTITIONS,
    STRANGER,
    TOKEN,
    Shop,
)
from tests.patience import PATIENCE_S, until
from tests.unhurried import no_silence  # noqa: F401  for this module

pytestmark = pytest.mark.slow

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
    expect(page.locator("#records path")).to_have_attribute("d", re.compile(r"^M\d"))
    oldest = page.locator("#stream")
    expect(oldest.locator("time")).to_have_text(re.compile(r"^\d\d years ago$"))
    expect(oldest).to_contain_text(re.compile(r"task \d_\d: no newer record in its inputs"))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "now"),
        (1, "1 second ago"),
        (89, "89 seconds ago"),
        (180, "3 minutes ago"),
        (5_400, "2 hours ago"),
        (86_400, "24 hours ago"),
        (3 * 86_400, "3 days ago"),
        (90 * 86_400, "3 months ago"),
        (3 * 365 * 86_400, "3 years ago"),
        (-180.5, "in 3 minutes"),
    ],
)
def test_a_time_is_in_words_and_its_title_is_exact(page: Page, seconds: float, words: str) -> None:
    time = page.evaluate(
        "ms => { const one = timeElement(Date.now() - ms); return [one.textContent, one.title]; }",
        1_000 * seconds,
    )
    assert time[0] == words
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time[1])


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        ({"stage": "no owner"}, "no instance has the task"),
        ({"stage": "restoring", "report": {"lag": 5}}, "the task is restoring"),
        ({"isPaused": True, "report": {"lag": 5}}, "its instance is paused"),
        (
            {"report": {"lag": 5, "waits_for": ["payments-0"]}},
            "buffered records wait for payments-0, which may have older ones",
        ),
        (
            {"report": {"lag": 5, "waits_for": ["payments-0"], "waits_ms": 75_400}},
            "buffered records wait for payments-0, which may have older ones (for 75 seconds)",
        ),
        ({"report": {"lag": 5}, "perSecond": 3}, "5 records behind"),
        ({"report": {"lag": 1}}, "1 record behind, and none was committed lately"),
        ({"report": {"lag": 0}}, "no newer record in its inputs"),
        ({"report": {"lag": None}}, "the ends of its inputs are not known yet"),
    ],
)
def test_what_holds_stream_time_back_is_told(
    page: Page, task: dict[str, object], reason: str
) -> None:
    assert page.evaluate("heldBack", {"stage": "running", **task}) == reason


def test_the_oldest_input_is_told_with_its_distance_from_stream_time(page: Page) -> None:
    times = {"orders-0": 400_000, "payments-0": 220_000}
    report = {"stream_time_ms": 400_000, "partition_times": times}
    assert page.evaluate("oldestInput", report) == ["payments-0 is 3 minutes behind"]
    assert page.evaluate("oldestInput", {**report, "partition_times": {"orders-0": 400_000}}) == []
    assert page.evaluate("oldestInput", {"stream_time_ms": 400_000}) == []


def test_what_is_open_is_told_with_its_distance_from_the_first_closing_time(page: Page) -> None:
    rows = {
        "counts": {"count": 12, "next_ms": 430_000, "stream_time_ms": 400_000},
        "joined": {"count": 1_000, "next_ms": 5_000, "stream_time_ms": None},
        "quiet": {"count": 0, "next_ms": None, "stream_time_ms": 400_000},
    }
    assert page.evaluate("openRows", {"open_rows": rows}) == [
        "counts: 12 open, the first closes after 30 seconds of stream time",
        "joined: 1,000 or more open, the first closes after 0 seconds of stream time",
    ]
    assert page.evaluate("openRows", {"stream_time_ms": 400_000}) == []


def test_every_task_and_instance_has_a_row(page: Page, shop: Shop) -> None:
    expect(page.locator("#tasks tbody tr")).to_have_count(3 * PARTITIONS)
    addresses = {app._presence.address.removeprefix("http://") for app in shop.apps}  # type: ignore[union-attr]

    def report(number: int) -> tuple[str, str, str, set[str]]:
        task, stage, _, lag, _, owner, standby = cells(page, "tasks", f"0_{number}")
        return task, stage, lag, {owner, standby.removesuffix(", 0")}

    tasks = range(PARTITIONS)
    caught_up = [(f"0_{number}", "running", "0", addresses) for number in tasks]
    until(lambda: [report(number) for number in tasks] == caught_up)
    expect(page.locator("#instances tbody tr")).to_have_count(2)
    for rack in ("eu-1a", "eu-1b"):
        row = cells(page, "instances", rack)
        assert row[0].removesuffix("\nthis one") in addresses
        assert row[1:4] == [rack, "0.1.0", "1"]
        assert re.fullmatch(r"now|\d+ seconds? ago(\nit is late)?", row[10])
    of = [[int(one) for one in cells(page, "instances", rack)[4:6]] for rack in ("eu-1a", "eu-1b")]
    assert [sum(both) for both in zip(*of, strict=True)] == [9, 9]
    assert sum(int(cells(page, "instances", rack)[9]) for rack in ("eu-1a", "eu-1b")) == 1


def test_the_picture_has_its_figures_at_the_frames(page: Page) -> None:
    report = page.locator("#picture .report")
    expect(report).to_have_count(6)  # two lines of each that has tasks: the global one has none
    expect(report.first).to_have_text(re.compile(r"^[\d.,]+/s · running$"))
    for number in (1, 3, 5):
        expect(report.nth(number)).to_have_text("lag 0")
    expect(page.locator("#picture .frame.good")).to_have_count(3)
    expect(page.locator("#picture text.store", has_text="sales-per-hour")).to_be_visible()
    frame = page.locator("#picture .frame").first.bounding_box()
    line = report.first.bounding_box()
    assert frame is not None
    assert line is not None
    assert abs(frame["x"] - line["x"]) < 10
    assert 0 < frame["y"] - line["y"] < 60


def test_a_key_is_looked_up_in_every_kind_of_store(looks: Callable[..., str], page: Page) -> None:
    sold = looks("sales", "milk")
    assert re.search(r"\n12\t\d\d years ago\n", sold)
    time = page.locator("#found time")
    assert re.fullmatch(r"1970-01-02T00:00:00.0\d\dZ", time.get_attribute("title") or "")
    assert re.search(r"Partition \d, answered by http://127.0.0.1:\d+; it holds shop-by-", sold)
    start = r" years ago\n1970-01-02T00:00:00.000Z\s+"
    assert re.search(start + r"12\t", looks("sales-per-hour", "milk"))
    assert looks("sales-per-hour", "milk", start="0").startswith("the row does not exist")
    assert re.search(start, looks("visits", "ada"))
    assert looks("visits", "ada", to="5").startswith("There are no rows of this key.")
    assert re.match(r"value\ttimestamp\nAda\t\d\d years ago\n", looks("names", "ada"))
    assert f"\n{MANY}\t" in looks("amounts", "7")  # not rounded
    assert looks("amounts", "8").startswith("the row does not exist")


@pytest.mark.parametrize("product", ["changes", "..", "a/b c?", "é&<b>"])
def test_a_key_may_look_like_a_path(looks: Callable[..., str], product: str) -> None:
    assert looks("sales", product).startswith("value\ttimestamp\n1\t")


def test_a_wrong_key_gets_the_reason_as_text(looks: Callable[..., str]) -> None:
    found = looks("amounts", STRANGER)
    assert found.startswith(f"400: '{STRANGER}' is not a key of store 'amounts', whose keys are")
    assert looks("amounts", "7", partition="99").startswith("400: store 'amounts' has no")


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
    stage = row.locator("td").first
    expect(stage).to_contain_text("3,000 left")
    plants(3_000)  # a look of the page after the first, so that there is a time to divide by
    expect(stage).to_have_text(re.compile(r"^restoring3,000 left[\d.,]+/s, \d+ seconds?$"))
    expect(page.locator("#restore p")).to_have_text(
        re.compile(
            r"^1 task of 12 restoring: 3,000 records left, [\d.,]+ per second, about \d+ seconds?$"
        )
    )
    bar = page.locator("#restore progress")
    assert bar.evaluate("one => one.value") == pytest.approx(2 / 3)
    assert row.locator("progress").evaluate("one => one.value") == pytest.approx(2 / 3)
    expect(page.locator("#picture .report").first).to_contain_text("no owner")
    expect(page.locator("#picture .frame.bad")).to_have_count(1)
    _, stage_4, *_, held_back, owner, _ = cells(page, "tasks", "0_4")
    assert (stage_4, held_back, owner) == ("no owner", "–\nno instance has the task", "–")
    assert "10.0.0.9:8080, 17" in cells(page, "tasks", "0_0")[6].splitlines()
    strange = page.locator("#instances tbody tr", has_text="10.0.0.9:8080").locator("th, td")
    assert strange.all_inner_texts()[1:3] == [STRANGER, "<script>document.title=1</script>"]
    assert page.locator("img").count() == 0
    expect(page).to_have_title("shop · running")


def test_an_operator_has_its_records_per_second(page: Page, shop: Shop) -> None:
    operators = page.locator("#operators tbody tr")
    expect(operators.first).to_be_visible()
    for number in range(9):
        shop.order(f"customer-{number}", "salt", DAY_MS + 90)
    unpacked = page.locator("#operators tbody tr", has_text="unpacked").locator("td").nth(2)
    expect(unpacked).to_have_text(re.compile(r"^[1-9][\d.,]*|0\.\d$"))
    expect(
        page.locator("#picture .rate", has_text=re.compile(r"^[\d.,]+/s$")).first
    ).to_be_visible()


def test_the_newest_records_of_a_topic_are_decoded(page: Page) -> None:
    offered = page.locator("#topic option").all_inner_texts()
    assert {"orders (input)", "sold (output)", "dead (dead letters)"} <= {*offered}
    assert any(one.endswith("-by-product-repartition (repartition)") for one in offered)
    assert any(one.endswith("-sales-changelog (changelog)") for one in offered)
    page.select_option("#topic", "orders")
    page.fill("#count", "3")
    page.click("#browse button")
    rows = page.locator("#read tbody tr")
    expect(rows).to_have_count(3)
    time, place, key, value = rows.first.locator("th, td").all_inner_texts()
    assert re.fullmatch(r"\d\d years ago", time)
    assert re.fullmatch(r"\d, \d+", place)
    assert re.fullmatch(r"customer-\d+", key)
    assert value in ("tea", "salt")
    assert rows.first.locator("time").get_attribute("title") is not None


def test_a_dead_letter_is_shown_with_its_error(page: Page) -> None:
    page.click("#letters button")
    row = page.locator("#failed tbody tr")
    expect(row).to_have_count(1)
    expect(row.locator("td").nth(1)).to_have_text("ada")
    expect(row.locator("td").nth(2)).to_have_text("broken")
    error = row.locator("td").nth(3)
    expect(error).to_contain_text("builtins.ValueError")
    expect(error).to_contain_text("it fell off the shelf")
    expect(error).to_contain_text(re.compile(r"of orders-\d at offset \d+"))
    error.locator("summary").click()
    expect(error.locator("pre")).to_contain_text("in broken")


OLDER = """([before, value]) => {
  const name = "logstate hour " + location.pathname;
  const kept = JSON.parse(sessionStorage.getItem(name));
  kept.points.unshift({...kept.points[0], at: kept.points[0].at - before, records: value});
  sessionStorage.setItem(name, JSON.stringify(kept));
}"""


def test_figures_of_the_last_hour_outlive_a_reload(opens: Opens) -> None:
    page = opens()
    line = page.locator("#records .hour svg")
    expect(line).to_have_attribute("aria-label", re.compile(r"^Records/s.* over the last \d+ sec"))
    page.evaluate(OLDER, [180, 777])  # points of ten seconds
    page.reload()
    label = re.compile(r"^Records/s over the last 30 minutes: at least [\d.,]+, at most 777$")
    expect(line).to_have_attribute("aria-label", label)
    page.evaluate(OLDER, [360, 999])  # more than an hour ago
    page.reload()
    expect(line).to_have_attribute("aria-label", label)
    page.evaluate("sessionStorage.setItem('logstate hour /', '{')")
    page.reload()
    expect(page.locator("#records b")).to_have_text(re.compile(r"\d"))


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
        expect(page.locator("#picture .report")).to_have_count(6)
    finally:
        server.stop()
    expect(page.locator("#pulse")).to_contain_text("no answer for")
