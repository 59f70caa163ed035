"""The page in a real browser: it loads alone, everybody can use it, its controls work."""

import base64
import json
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from voxprior import VoxelSpace
from voxprior.images import ImageSpace
from voxprior.report import make_report
from voxprior.validation import cross_validate

pytestmark = pytest.mark.browser

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
AXE = CACHE / "voxprior" / "axe-core" / "package" / "axe.min.js"
TAB, ENTER, RIGHT, SPACE = "\ue004", "\ue007", "\ue014", "\ue00d"


@pytest.fixture(scope="module")
def report():
    """Two classes in runs, on a volume: every part of the page is there."""
    rng, space = np.random.default_rng(0), VoxelSpace.grid((6, 5, 4), 3 * np.eye(4))
    y = np.repeat(["face", "house"], 20)
    X = rng.normal(size=(40, 120)) + 0.3 * (y == "house")[:, None] * (np.arange(120) < 30)
    runs = np.tile(np.arange(5), 8)
    result = cross_validate(LogisticRegression(C=0.01), X, y, runs)
    model = LogisticRegression(C=0.01).fit(X, y)
    told = {"decisions": ["Split: by runs, because there are some."], "positive": "face"}
    beside = [{"caption": "Beside it", "columns": ["decoder", "accuracy"], "rows": [["a", "0.5"]]}]
    return make_report(model, ImageSpace(space), result, beside=beside, **told)


@pytest.fixture(scope="module")
def path(report, tmp_path_factory):
    return report.save(tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture
def page(browser, path):
    for log in ("browser", "performance"):  # of the browser's own first page
        browser.get_log(log)
    browser.get(path.as_uri())
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def look(page, width, scheme):
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


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


def complaints(page):
    """What the console says, but for what it says of the pixels that these tests read."""
    return [line for line in page.get_log("browser") if "getImageData" not in line["message"]]


def until(page, condition):
    wait = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait(page, 30)
    return wait.until(condition)


# ---------------------------------------------------------------- for everybody

VIEWS = [(width, scheme) for width in (1280, 400) for scheme in ("light", "dark")]


def test_loads_without_errors_or_requests(page):
    page.execute_script("document.querySelectorAll('details').forEach((one) => one.open = true)")
    until(page, lambda _: page.find_elements("css selector", ".stage p"))
    assert complaints(page) == []
    events = [json.loads(line["message"])["message"] for line in page.get_log("performance")]
    asked = [e["params"]["request"] for e in events if e["method"] == "Network.requestWillBeSent"]
    sent = {one["url"].partition(":")[0] for one in asked}
    assert "file" in sent
    assert sent <= {"file", "data", "blob"}
    assert page.find_element("tag name", "h1").text == "Decoding report"


@pytest.mark.parametrize("width", [320, 400, 1280])
def test_nothing_sticks_out_of_the_page(page, width):
    look(page, width, "light")
    page.execute_script("document.querySelectorAll('details').forEach((one) => one.open = true)")
    until(page, lambda _: page.find_elements("css selector", ".stage p"))
    assert page.execute_script("return document.documentElement.scrollWidth") <= width


def test_what_is_cut_says_that_it_scrolls(page):
    look(page, 390, "light")
    page.execute_script("document.querySelectorAll('details').forEach((one) => one.open = true)")
    until(page, lambda _: page.find_elements("css selector", ".stage p"))
    boxes = page.execute_script(
        "return [...document.querySelectorAll('.scroll, .frame, pre')].map((box) =>"
        " [box.scrollWidth > box.clientWidth + 2, box.nextElementSibling.offsetHeight > 0])"
    )
    assert any(cut for cut, _ in boxes)
    assert [cut for cut, _ in boxes] == [signed for _, signed in boxes]


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_accessibility_rules_find_nothing_serious(page, width, scheme):
    if not AXE.is_file():
        pytest.skip("axe-core is not there: `make test-browser` fetches it with npm")
    look(page, width, scheme)
    page.execute_script("document.querySelectorAll('details').forEach((one) => one.open = true)")
    until(page, lambda _: page.find_elements("css selector", ".stage p"))
    page.execute_script(AXE.read_text("utf-8"))
    found = page.execute_async_script(
        "const done = arguments[0];"
        "axe.run().then((r) => done(r.violations.map((v) =>"
        " [v.impact, v.id, v.nodes.map((n) => n.target.join(' ') + ': ' + n.failureSummary)])))"
    )
    assert [one for one in found if one[0] in ("serious", "critical")] == []


def test_plots_follow_light_and_dark(page):
    """The middle of the first plot's axis is inked in another colour."""

    def inked(scheme):
        look(page, 1280, scheme)
        image = page.find_element("css selector", '#sure img[data-file="roc"]')
        page.execute_script("arguments[0].scrollIntoView()", image)
        return image.screenshot_as_png

    light, dark = inked("light"), inked("dark")
    assert light != dark
    pixels = [_shades(page, png) for png in (light, dark)]
    assert pixels[0] > 200  # paper is bright, then dark
    assert pixels[1] < 60


def _shades(page, png):
    """Mean brightness of a picture, as the browser itself reads it."""
    uri = "data:image/png;base64," + base64.b64encode(png).decode()
    return page.execute_async_script(
        "const done = arguments[1], image = new Image();"
        "image.onload = () => {"
        " const c = document.createElement('canvas');"
        " c.width = image.width; c.height = image.height;"
        " const b = c.getContext('2d'); b.drawImage(image, 0, 0);"
        " const d = b.getImageData(0, 0, c.width, c.height).data; let sum = 0;"
        " for (let i = 0; i < d.length; i += 4) sum += (d[i] + d[i + 1] + d[i + 2]) / 3;"
        " done(sum / (d.length / 4)); };"
        "image.src = arguments[0];",
        uri,
    )


def test_the_keyboard_alone_reaches_and_works_everything(page):
    """Tab visits every control in order; Enter opens a viewer, arrows move its sliders."""
    from selenium.webdriver import ActionChains

    def press(*keys):
        for key in keys:
            ActionChains(page).send_keys(key).perform()

    def focused():
        return page.execute_script(
            "const e = document.activeElement;"
            "return e.id || e.className || e.textContent.trim().slice(0, 40)"
        )

    page.execute_script("document.body.focus()")
    visited = []
    for _ in range(120):
        press(TAB)
        visited.append(focused())
        if visited[-1].startswith("Interactive viewer"):
            press(ENTER)
            until(page, lambda _: page.find_elements("css selector", ".stage p"))
        if visited[-1] == "move-0-0":
            before = page.find_element("css selector", ".stage p").text
            press(RIGHT)
            assert page.find_element("css selector", ".stage p").text != before
        if visited[-1] == "reject":
            press(*[RIGHT] * 5)
            assert text(page, "reject-out") == "0.05"
        if visited[-1] == "download":
            break
    expected = ["skip", "move-0-0", "hide-0", "reject", "prior-0", "reset", "filter", "which"]
    places = [visited.index(name) for name in expected]
    assert places == sorted(places)
    assert complaints(page) == []


def test_it_can_be_printed(page):
    printed = page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF")
    assert 3 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 15


# ---------------------------------------------------------------- decisions


def test_the_script_decides_as_the_summary_does(page, report):
    rows = [row["counts"] for row in report.summary["confusion"]]
    assert cells(page) == rows
    told = [text(page, name) for name in ("sensitivity", "specificity", "ppv", "npv")]
    assert told == [row["value"] for row in report.summary["clinic"]]
    right = rows[0][0] + rows[1][1]
    assert text(page, "decided-accuracy") == f"{right / np.sum(rows):.3f}"


def test_threshold_moves_scans_to_undecided(page):
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


def test_prevalence_moves_decisions_and_predictive_values(page):
    before = cells(page)
    move(page, "prior-0", 0.99)
    after = cells(page)
    assert sum(after[0]) > sum(before[0])
    assert text(page, "prior-out-0") == "0.99"
    s, t = after[0][0] / 20, after[1][1] / 20
    assert text(page, "ppv") == f"{s * 0.99 / (s * 0.99 + (1 - t) * 0.01):.3f}"


# ---------------------------------------------------------------- predictions


def rows_of(page):
    rows = page.find_elements("css selector", "#rows tbody tr")
    return [
        [cell.get_attribute("textContent") for cell in row.find_elements("css selector", "*")]
        for row in rows
    ]


def test_predictions_sort(page):
    header = page.find_elements("css selector", "table.sortable thead th")[-1]
    column = header.find_element("tag name", "button")
    page.execute_script("arguments[0].click()", column)
    values = [float(row[-1]) for row in rows_of(page)]
    assert values == sorted(values)
    assert len(set(values)) > 10
    assert header.get_attribute("aria-sort") == "ascending"
    page.execute_script("arguments[0].click()", column)
    assert header.get_attribute("aria-sort") == "descending"
    assert [float(row[-1]) for row in rows_of(page)] == sorted(values, reverse=True)


def test_predictions_are_filtered_and_downloaded(page, report):
    everything = report.summary["predictions"]
    assert rows_of(page) == everything["rows"]
    right = everything["columns"].index("right")
    wrong = [row for row in everything["rows"] if row[right] == "no"]
    move(page, "which", "no")
    assert rows_of(page) == wrong
    assert text(page, "shown") == f"{len(wrong)} of {len(wrong)} rows"
    page.execute_script(
        "window.kept = null; URL.createObjectURL = (blob) => { window.kept = blob; return '#'; }"
    )
    page.execute_script("document.getElementById('download').click()")
    saved = page.execute_async_script("window.kept.text().then(arguments[0])")
    assert saved.splitlines() == ["\t".join(row) for row in [everything["columns"], *wrong]]


# ---------------------------------------------------------------- the interactive viewers


def coloured(page):
    """Pixels of each colour in the viewer's canvas; neither white nor grey."""
    return page.execute_script(
        "const c = document.querySelector('canvas'), seen = {};"
        "const d = c ? c.getContext('2d').getImageData(0, 0, c.width, c.height).data : [];"
        "for (let i = 0; i < d.length; i += 4) {"
        "  if (Math.max(d[i], d[i+1], d[i+2]) - Math.min(d[i], d[i+1], d[i+2]) < 20) continue;"
        "  const key = [d[i], d[i+1], d[i+2]].join(); seen[key] = (seen[key] || 0) + 1; }"
        "return seen"
    )


def open_viewer(page):
    page.find_element("css selector", "details.viewer summary").click()
    return until(page, coloured)


def test_the_viewer_draws_the_map_and_follows_a_click(page):
    before = open_viewer(page)
    assert len(before) > 10
    where = page.find_element("css selector", ".stage p").text
    page.execute_script(
        "const c = document.querySelector('canvas'), r = c.getBoundingClientRect();"
        "c.dispatchEvent(new MouseEvent('click', {bubbles: true,"
        " clientX: r.x + 0.1 * r.width, clientY: r.y + 0.6 * r.height}))"
    )
    until(page, lambda _: coloured(page) != before)
    assert page.find_element("css selector", ".stage p").text != where
    move(page, "hide-0", 1.0001)
    until(page, lambda _: len(coloured(page)) < len(before))
    assert complaints(page) == []


def test_a_surface_turns(browser, tmp_path):
    corners = np.array([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
    sides = [[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]]
    y = np.repeat(["face", "house"], 10)
    X = np.random.default_rng(0).normal(size=(20, 6)) + (y == "house")[:, None]
    result = cross_validate(LogisticRegression(), X, y, cv=4)
    images = ImageSpace(VoxelSpace.from_mesh(corners, sides), parts=(("left", 6),))
    report = make_report(LogisticRegression().fit(X, y), images, result)
    browser.get(report.save(tmp_path / "report.html").as_uri())
    before = open_viewer(browser)
    move(browser, "turn-0", 20)
    until(browser, lambda _: coloured(browser) != before)
    assert complaints(browser) == []


# ---------------------------------------------------------------- many classes and scans


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Ten classes, 500 scans, twenty maps of 40,000 voxels."""
    rng, space = np.random.default_rng(0), VoxelSpace.grid((40, 40, 25), 4 * np.eye(4))
    y = np.tile([f"category {letter}" for letter in "abcdefghij"], 50)
    X = rng.normal(size=(500, 60)) + 0.8 * (y[:, None] == np.unique(y)[np.arange(60) % 10])
    result = cross_validate(LogisticRegression(), X, y, np.repeat(np.arange(10), 50))
    model = LogisticRegression().fit(X, y)
    model.coef_ = rng.normal(size=(10, space.n_voxels))
    report = make_report(model, ImageSpace(space), result, names=[f"scan-{i}" for i in range(500)])
    return report.save(tmp_path_factory.mktemp("large") / "report.html")


def test_ten_classes_and_500_scans_stay_readable(browser, large):
    assert large.stat().st_size < 15e6
    browser.get(large.as_uri())
    look(browser, 1280, "light")
    table = browser.find_element("id", "confusion")
    assert table.size["width"] < 1100
    assert len(rows_of(browser)) == 200
    assert text(browser, "shown") == "200 of 500 rows"
    assert not browser.find_element("id", "groups").get_attribute("open")
    browser.execute_script("document.getElementById('more').click()")
    assert text(browser, "shown") == "400 of 500 rows"
    move(browser, "filter", "scan-123")
    assert text(browser, "shown") == "1 of 1 rows"
    assert complaints(browser) == []
