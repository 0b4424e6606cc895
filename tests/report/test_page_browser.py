"""The report page in a browser: wide and narrow, by mouse and by keyboard, from a file and without a network."""

import pytest

from report.page import render
from tests.report.chromium import Browser, installed
from tests.report.pages import plans, suite

pytestmark = pytest.mark.skipif(installed() is None, reason="needs Chromium")
WIDTHS = [1280, 400]
ORDER = "[...document.querySelectorAll('#table-1 .results > tbody')].map(b => b.rows[0].cells[0].innerText.slice(0, 6))"
AS_GIVEN = ["R&D's ", "Second", "Bad", "Theirs", "Others"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Path of a page with tables, curves, cards and costs."""
    results, paths = suite(tmp_path_factory.mktemp("browser"))
    folder = results / "report"
    text = render(results, plans(paths), set(), folder)
    (folder / "index.html").write_text(text)
    return folder / "index.html"


def click(browser, title):
    """Click on the title of a column of the first table; returns how it is sorted then."""
    return browser.run(f"""(() => {{
        const titles = [...document.querySelectorAll("#table-1 thead button")];
        const found = titles.find(each => each.innerText.trim() === "{title}");
        found.click();
        return found.closest("th").getAttribute("aria-sort");
    }})()""")


def overflow(browser):
    """How far the page is wider than the window, in pixels."""
    return browser.run("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_the_window_and_needs_nothing_from_elsewhere(browser, page, width):
    browser.open(page, width)
    assert overflow(browser) == 0
    browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
    assert overflow(browser) == 0
    first = "document.querySelector('.results > tbody > tr > th').getBoundingClientRect()"
    assert browser.run(f"{first}.width") < width / 2  # the method stays in view beside its numbers
    assert browser.run(f"(document.querySelector('.box').scrollLeft = 200, {first}.left)") < 60
    asked = [event["request"]["url"] for event in browser.said("Network.requestWillBeSent")]
    assert asked == [page.resolve().as_uri()]
    assert browser.said("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled") == []
    assert browser.run("typeof window.pwned") == "undefined"


def test_a_click_on_a_title_sorts_a_second_one_turns_round_a_third_one_takes_back(browser, page):
    browser.open(page, WIDTHS[0])
    assert browser.run(ORDER) == AS_GIVEN
    assert click(browser, "ACC") == "descending"
    assert browser.run(ORDER)[:2] == ["R&D's ", "Second"]
    assert click(browser, "ACC") == "ascending"
    assert browser.run(ORDER) == ["Second", "R&D's ", "Bad", "Theirs", "Others"]  # those without a number stay last
    assert click(browser, "ACC") is None
    assert browser.run(ORDER) == AS_GIVEN
    assert click(browser, "ACC, paper") == "descending"
    assert browser.run(ORDER)[0] == "Others"
    assert click(browser, "method") == "ascending"
    assert browser.run(ORDER) == ["Bad", "Others", "R&D's ", "Second", "Theirs"]
    assert browser.run("document.querySelectorAll('[aria-sort]').length") == 1


def test_the_keyboard_sorts_and_unfolds_where_numbers_come_from(browser, page):
    browser.open(page, WIDTHS[1])
    shown = "document.querySelector('#table-1 .origin').getBoundingClientRect().height"
    assert browser.run(shown) == 0
    browser.run("document.querySelector('#table-1 .box').focus()")
    browser.press("Tab")
    browser.press("Enter")
    assert browser.run(ORDER)[0] == "Bad"
    assert browser.run("document.activeElement.innerText.trim()") == "method"
    browser.run("[...document.querySelectorAll('#table-1 thead button')].at(-1).focus()")
    browser.press("Tab")
    assert browser.run("document.activeElement.innerText") == "Bad"
    browser.press(" ")
    assert browser.run(shown) > 40
    assert "diverged in epoch 2" in browser.run("document.querySelector('#table-1 .origin').innerText")
    assert overflow(browser) == 0


def test_figures_beside_the_page_are_shown(browser, page):
    figure = page.parent.parent / "figures" / "100% <b>.png"
    figure.parent.mkdir(exist_ok=True)
    browser.screenshot(figure, whole=False)
    results = page.parent.parent
    given = plans(sorted(results.glob(".plan/*.json")))
    page.with_name("more.html").write_text(render(results, given, {figure}, page.parent))
    browser.open(page.with_name("more.html"), WIDTHS[1])
    width = (
        "(async () => {const i = document.images[0]; i.loading = 'eager'; await i.decode(); return i.naturalWidth})()"
    )
    assert browser.run(width) > 0
    assert overflow(browser) == 0
