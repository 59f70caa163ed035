"""The page in a real browser: it loads alone, and its controls change its tables."""

import shutil

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from voxprior import VoxelSpace
from voxprior.images import ImageSpace
from voxprior.report import make_report
from voxprior.report.page import Report
from voxprior.report.summary import summarize
from voxprior.validation import cross_validate

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield opened
    opened.quit()


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    rng = np.random.default_rng(0)
    y = np.repeat(["face", "house"], 20)
    X = rng.normal(size=(40, 30)) + 0.3 * (y == "house")[:, None]
    result = cross_validate(LogisticRegression(C=0.1), X, y, np.tile(np.arange(4), 10))
    path = Report(summarize(result)).save(tmp_path_factory.mktemp("page") / "report.html")
    browser.get(path.as_uri())
    return browser


def move(page, name, value):
    page.execute_script(
        "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
        "e.dispatchEvent(new Event('input'))",
        name,
        value,
    )


def text(page, name):
    return page.find_element("id", name).text


def cells(page):
    rows = page.find_elements("css selector", "#confusion tbody tr")
    return [[int(td.text) for td in row.find_elements("tag name", "td")] for row in rows]


def test_loads_without_errors_or_requests(page):
    assert page.get_log("browser") == []
    sent = [
        e["message"] for e in page.get_log("performance") if "requestWillBeSent" in e["message"]
    ]
    assert all('"url":"file:' in m or '"url":"data:' in m for m in sent)
    assert page.find_element("tag name", "h1").text == "Decoding report"


def test_threshold_moves_scans_to_undecided(page):
    page.find_element("id", "reject").send_keys("")
    move(page, "reject", 0)
    before = cells(page)
    assert sum(before[2]) == 0
    assert text(page, "coverage") == "1.000"
    move(page, "reject", 0.7)
    after = cells(page)
    assert sum(after[2]) > 0
    assert np.sum(after) == np.sum(before) == 40
    assert float(text(page, "coverage")) < 1
    page.find_element("id", "reset").click()
    assert cells(page) == before


def test_prevalence_moves_decisions(page):
    before = cells(page)
    move(page, "prior-0", 0.99)
    move(page, "prior-1", 0.01)
    assert sum(cells(page)[0]) > sum(before[0])
    assert text(page, "prior-out-0") == "0.99"
    page.find_element("id", "reset").click()


def test_keyboard_moves_the_slider(page):
    slider = page.find_element("id", "reject")
    for _ in range(5):
        slider.send_keys("\ue014")
    assert text(page, "reject-out") == "0.05"
    page.find_element("id", "reset").click()


def test_predictions_sort(page):
    header = page.find_elements("css selector", "table.sortable thead th")[-1]
    column = header.find_element("tag name", "button")
    page.execute_script("arguments[0].click()", column)
    values = [
        float(row.find_elements("tag name", "td")[-1].get_attribute("textContent"))
        for row in page.find_elements("css selector", "table.sortable tbody tr")
    ]
    assert values == sorted(values)
    assert len(set(values)) > 10
    assert header.get_attribute("aria-sort") == "ascending"
    page.execute_script("arguments[0].click()", column)
    assert header.get_attribute("aria-sort") == "descending"


@pytest.mark.parametrize("width", [320, 400, 1280])
def test_nothing_sticks_out_of_the_page(page, width):
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


# ---------------------------------------------------------------- the interactive viewer


@pytest.fixture
def viewer(browser, tmp_path):
    """The interactive viewer of a map, opened as a reader opens it."""
    rng, space = np.random.default_rng(0), VoxelSpace.grid((6, 5, 4), 3 * np.eye(4))
    y = np.repeat(["face", "house"], 10)
    X = rng.normal(size=(20, 120)) + (y == "house")[:, None] * (np.arange(120) < 20)
    result = cross_validate(LogisticRegression(), X, y, cv=4)
    model = LogisticRegression().fit(X, y)
    path = make_report(model, ImageSpace(space), result).save(tmp_path / "report.html")
    browser.get(path.as_uri())
    browser.find_element("tag name", "summary").click()
    frame = browser.find_element("tag name", "iframe")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", frame)
    browser.switch_to.frame(frame)
    yield browser
    browser.switch_to.default_content()


def coloured(viewer):
    """Pixels of each colour in the viewer's canvas; neither white nor grey."""
    return viewer.execute_script(
        "const c = document.querySelector('canvas'), seen = {};"
        "const d = c ? c.getContext('2d').getImageData(0, 0, c.width, c.height).data : [];"
        "for (let i = 0; i < d.length; i += 4) {"
        "  if (Math.max(d[i], d[i+1], d[i+2]) - Math.min(d[i], d[i+1], d[i+2]) < 20) continue;"
        "  const key = [d[i], d[i+1], d[i+2]].join(); seen[key] = (seen[key] || 0) + 1; }"
        "return seen"
    )


def test_the_viewer_draws_the_map_and_follows_a_click(viewer):
    wait = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait(viewer, 20)
    before = wait.until(coloured)
    assert len(before) > 10
    viewer.execute_script(
        "const c = document.querySelector('canvas'), r = c.getBoundingClientRect();"
        "c.dispatchEvent(new MouseEvent('click', {bubbles: true,"
        " clientX: r.x + 0.1 * r.width, clientY: r.y + 0.6 * r.height}))"
    )
    wait.until(lambda _: coloured(viewer) != before)
    assert viewer.get_log("browser") == []
