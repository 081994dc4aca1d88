"""The site in a headless browser: sorting, filtering, the switch of views, themes, keys, links, no request out."""

import base64
import json
import os
import re
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
# Where CI has a browser, nothing it lacks is a reason to skip.
if os.environ.get("CI") and CHROMIUM and not (DRIVER and find_spec("selenium")):
    raise RuntimeError("chromium is here, but not chromedriver and selenium: apt-get install chromium-driver")
webdriver = pytest.importorskip("selenium.webdriver", reason="no Selenium here: pip install selenium")
Service = pytest.importorskip("selenium.webdriver.chrome.service").Service
By = pytest.importorskip("selenium.webdriver.common.by").By
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
expected_conditions = pytest.importorskip("selenium.webdriver.support.expected_conditions")
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDTHS = {"desk": (1280, 900), "phone": (360, 780)}
PATIENCE = 30
"""Seconds a loaded machine may take to show a page."""
STANDING = "standing-standard"
CONTRAST = """
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const light = (rgb) => rgb.slice(0, 3).map((v) => v / 255)
  .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const over = (top, under) => {
  const a = top.length > 3 ? top[3] : 1;
  return [0, 1, 2].map((i) => top[i] * a + under[i] * (1 - a));
};
const ground = (element) => {
  const layers = [];
  for (let one = element; one; one = one.parentElement) layers.push(parse(getComputedStyle(one).backgroundColor));
  return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
};
const found = new Set();
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!own || !element.getClientRects().length || element.closest("svg")) continue;
  const style = getComputedStyle(element);
  const [a, b] = [light(parse(style.color)), light(ground(element))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) found.add(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
}
return [...found];
"""


@pytest.fixture(scope="module")
def site(toy_site) -> Path:
    return toy_site


@pytest.fixture(scope="module")
def driver(tmp_path_factory) -> Iterator[webdriver.Chrome]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no chromium and chromedriver here: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield found
    found.quit()


@pytest.fixture
def browser(driver, site):
    """Return the browser on the first page, as wide as a desk, light, and with nothing remembered."""
    look(driver, "desk", "light")
    visit(driver, site / "index.html")
    yield driver
    assert [entry["message"] for entry in driver.get_log("browser")] == []
    driver.execute_script("try { localStorage.clear(); sessionStorage.clear() } catch { /* nothing can be stored */ }")


@pytest.fixture
def dataset(browser, site):
    """Return the browser on the page of a dataset."""
    visit(browser, site / "datasets" / "metafam.html")
    return browser


@pytest.fixture(scope="module")
def shots() -> Path | None:
    """Return where pictures of whole pages are kept: ``MTBENCH_SCREENSHOTS``; None if only the window is looked at."""
    folder = Path(named) if (named := os.environ.get("MTBENCH_SCREENSHOTS")) else None
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def visit(driver, page: Path) -> None:
    """Open ``page``; return once the new document, not the one before it, has come with its tables set up."""
    driver.execute_script("window.left = true")
    driver.get(page.as_uri())
    come = "return !window.left && document.readyState === 'complete'"
    WebDriverWait(driver, PATIENCE).until(lambda one: one.execute_script(come))


def look(driver, size: str, theme: str) -> None:
    width, height = WIDTHS[size]
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    media = {"prefers-color-scheme": theme, "prefers-reduced-motion": "reduce"}
    features = [{"name": name, "value": value} for name, value in media.items()]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def header(browser, table: str, label: str):
    cells = browser.find_elements(By.CSS_SELECTOR, f"#{table} thead th")
    return next(cell for cell in cells if cell.text.strip() == label)


def column(browser, table: str, number: int, body: int = 1) -> list[str]:
    selector = f"#{table} tbody:nth-of-type({body}) tr.row > :nth-child({number})"
    texts = "return [...document.querySelectorAll(arguments[0])].map((cell) => cell.innerText.trim())"
    return [text.split("\n")[0] for text in browser.execute_script(texts, selector)]


def shown(browser, selector: str) -> list[str]:
    ids = """const seen = {visibilityProperty: true, opacityProperty: true};
    return [...document.querySelectorAll(arguments[0])]
      .filter((one) => one.checkVisibility(seen) && one.getClientRects().length).map((one) => one.id)"""
    return browser.execute_script(ids, selector)


def test_a_click_sorts_and_a_second_one_turns_it_round(dataset):
    means = [float(text.split()[0]) for text in column(dataset, STANDING, 3)]
    assert means == sorted(means, reverse=True)
    assert len(means) > 1
    mrr = header(dataset, STANDING, "MRR")
    assert mrr.get_attribute("aria-sort") == "none"
    mrr.find_element(By.TAG_NAME, "button").click()
    assert mrr.get_attribute("aria-sort") == "descending"
    assert [float(text.split()[0]) for text in column(dataset, STANDING, 3)] == means
    mrr.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert mrr.get_attribute("aria-sort") == "ascending"
    assert [float(text.split()[0]) for text in column(dataset, STANDING, 3)] == means[::-1]
    header(dataset, STANDING, "Entry").find_element(By.TAG_NAME, "button").click()
    names = column(dataset, STANDING, 1)
    assert names == sorted(names, key=str.lower)
    assert mrr.get_attribute("aria-sort") == "none"


def test_missing_figures_and_the_baseline_stay_where_they_are(browser):
    metafam = header(browser, "standings", "MetaFam")
    number = browser.execute_script("return arguments[0].cellIndex", metafam) + 1
    before = None
    for _ in range(2):
        metafam.find_element(By.CSS_SELECTOR, "button.sort").click()
        figures = [text[0].isdigit() for text in column(browser, "standings", number, body=TRAINED)]
        assert figures == sorted(figures, reverse=True)
        assert 1 < sum(figures) < len(figures)
        names = column(browser, "standings", 1, body=TRAINED)
        assert names != before
        before = names
        assert column(browser, "standings", 1) == ["Best heuristic baseline learns nothing"]


TRAINED = 3
"""The rows of that regime on the first page: below the baseline and those that were pre-trained elsewhere."""


def rows_shown(browser) -> list[str]:
    rows = browser.find_elements(By.CSS_SELECTOR, "#standings tr.row:not(.baseline)")
    return [row.text for row in rows if row.is_displayed()]


def test_a_filter_hides_rows_and_says_how_many_are_left(browser):
    output = browser.find_element(By.ID, "shown")
    every = int(re.fullmatch(r"(\d+) of \1 rows shown", output.text)[1])
    assert output.get_attribute("aria-live") == "polite"
    field = browser.find_element(By.ID, "filter")
    field.send_keys("isdea-homo")
    left = rows_shown(browser)
    assert 0 < len(left) < every
    assert all("ISDEA-homo" in row for row in left)
    assert output.text == f"{len(left)} of {every} rows shown"
    field.send_keys(" nobody")
    assert output.text == f"0 of {every} rows shown"
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys(Keys.DELETE)
    assert output.text == f"{every} of {every} rows shown"
    browser.find_element(By.ID, "regime-trained").click()
    left = rows_shown(browser)
    assert not any(row.startswith("ISDEA") for row in left)
    assert any(row.startswith("MTDEA, K = 2") for row in left)
    assert output.text == f"{len(left)} of {every} rows shown"
    assert browser.find_element(By.CSS_SELECTOR, "tr.baseline").is_displayed()


def test_the_switch_shows_one_reading_and_is_kept_on_other_pages(dataset, site):
    views = ("standard", "slots", "pessimistic", "paper")
    for key in views:
        dataset.find_element(By.ID, f"view-{key}").click()
        tables = shown(dataset, "main table")
        assert f"standing-{key}" in tables
        assert not any(name.endswith(other) for name in tables for other in views if other != key)
    dataset.find_element(By.CSS_SELECTOR, "#protocol-dual summary").click()
    assert "reported 0.292" in dataset.find_element(By.ID, "dual-trained-paper").text
    visit(dataset, site / "models" / "isdea.html")
    assert "dual-paper" in shown(dataset, "main table")
    dataset.find_element(By.CSS_SELECTOR, "#view-paper").send_keys(Keys.ARROW_LEFT)
    assert "dual-pessimistic" in shown(dataset, "main table")


def test_without_script_the_standard_shows_and_what_can_be_opened_opens(browser, site):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        visit(browser, site / "datasets" / "metafam.html")
        ids = [
            one.get_attribute("id") for one in browser.find_elements(By.CSS_SELECTOR, ".table") if one.is_displayed()
        ]
        assert f"{STANDING}-box" in ids
        assert not any("slots" in name for name in ids)
        assert not browser.find_element(By.ID, "filter").is_displayed()
        browser.find_element(By.ID, "view-slots").click()
        assert browser.find_element(By.ID, "standing-slots").is_displayed()
        assert not browser.find_element(By.ID, STANDING).is_displayed()
        visit(browser, site / "index.html")
        health = browser.find_element(By.CSS_SELECTOR, "#standings th.part-mt1")
        assert not health.is_displayed()
        browser.find_element(By.ID, "open-mt1").click()
        assert health.is_displayed()
        every = len(rows_shown(browser))
        browser.find_element(By.ID, "regime-trained").click()
        assert 0 < len(rows_shown(browser)) < every
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_a_tap_says_how_to_run_what_is_missing(browser):
    (cell, *_) = [one for one in browser.find_elements(By.CSS_SELECTOR, "td .tap") if one.text == "not run"]
    tip = browser.find_element(By.ID, cell.get_attribute("popovertarget"))
    assert not tip.is_displayed()
    cell.send_keys(Keys.ENTER)
    assert tip.is_displayed()
    assert "mtbench grid " in tip.text
    assert "per seed" in tip.text
    cell.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed()


def test_the_theme_follows_the_system_until_it_is_chosen(browser, site):
    def ground() -> str:
        return browser.execute_script("return getComputedStyle(document.body).backgroundColor")

    light = ground()
    button = browser.find_element(By.ID, "theme")
    assert button.text == "Dark theme"
    look(browser, "desk", "dark")
    dark = ground()
    assert dark != light
    offered(browser, "Light theme")
    button.send_keys(Keys.ENTER)
    offered(browser, "Dark theme")
    assert ground() == light
    visit(browser, site / "about.html")
    assert ground() == light


def offered(browser, theme: str) -> None:
    button = expected_conditions.text_to_be_present_in_element((By.ID, "theme"), theme)
    WebDriverWait(browser, PATIENCE).until(button)


def test_paper_is_white_whatever_the_screen(browser):
    look(browser, "desk", "dark")
    media = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        style = "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
        assert browser.execute_script(style) == ["rgb(255, 255, 255)", "rgb(0, 0, 0)"]
        assert not browser.find_element(By.ID, "filter").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_nothing_moves_while_a_page_opens(browser, site):
    watch = """window.shifts = [];
    new PerformanceObserver((list) => window.shifts.push(...list.getEntries().map((entry) => entry.value)))
      .observe({type: "layout-shift", buffered: true});"""
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": watch})
    frames = """const done = arguments[0];
    let left = 3;
    const next = () => left-- ? requestAnimationFrame(next) : done(window.shifts);
    next();"""
    try:
        for name in ("index", "datasets/metafam", "models/mtdea-k2"):
            visit(browser, site / f"{name}.html")
            assert sum(browser.execute_async_script(frames)) < 0.01, name
        # What moves later is seen.
        browser.execute_script("document.querySelector('h1').style.marginTop = '300px'")
        assert sum(browser.execute_async_script(frames)) > 0.01
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def test_where_nothing_can_be_stored_all_of_it_works(browser, site):
    blocked = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('blocked'); }});"
    blocked += blocked.replace("localStorage", "sessionStorage")
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": blocked})
    try:
        visit(browser, site / "datasets" / "metafam.html")
        browser.find_element(By.ID, "theme").click()
        assert browser.find_element(By.ID, "theme").text == "Light theme"
        browser.find_element(By.ID, "view-slots").click()
        assert "rows shown" in browser.find_element(By.ID, "shown").text
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def test_the_keyboard_reaches_the_content_first_and_then_everything(browser):
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    skip = browser.switch_to.active_element
    assert skip.text == "Skip to the content"
    assert skip.location["x"] >= 0
    skip.send_keys(Keys.ENTER)
    assert browser.execute_script("return document.activeElement.id") == "main"
    seen = set()
    for _ in range(24):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        focus = browser.switch_to.active_element
        seen.add(focus.get_attribute("id") or focus.get_attribute("class") or focus.tag_name)
        assert focus.is_displayed() or focus.get_attribute("type") == "checkbox"
        outline = "const e = arguments[0], s = getComputedStyle(e), n = e.nextElementSibling;"
        outline += "return [s.outlineStyle, n ? getComputedStyle(n).outlineStyle : 'none']"
        assert "solid" in browser.execute_script(outline, focus)
    assert {"regime-trained", "filter", "scroll", "sort"} <= seen


@pytest.mark.parametrize("name", ["index", "suite", "datasets/metafam", "models/mtdea-k2", "about"])
def test_pages_fit_and_can_be_read(browser, site, shots, name):
    visit(browser, site / f"{name}.html")
    for key in ("standard", "paper"):
        if found := browser.find_elements(By.ID, f"view-{key}"):
            found[0].click()
        elif key == "paper":
            continue
        for size, theme in product(WIDTHS, ("light", "dark")):
            look(browser, size, theme)
            assert browser.execute_script(CONTRAST) == [], f"{key} {size} {theme}"
            wide = browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{key} {size} {theme} scrolls sideways"
            options = {"captureBeyondViewport": shots is not None}
            picture = base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", options)["data"])
            assert len(picture) > 10_000
            if shots:
                (shots / f"{name.replace('/', '-')}-{key}-{size}-{theme}.png").write_bytes(picture)


def test_on_a_phone_tables_scroll_beside_their_first_column(dataset):
    look(dataset, "phone", "light")
    box = dataset.find_element(By.CSS_SELECTOR, f"#{STANDING}-box .scroll")
    first = dataset.find_element(By.CSS_SELECTOR, f"#{STANDING} tr.row th")
    second = dataset.find_element(By.CSS_SELECTOR, f"#{STANDING} tr.row td")
    place = "return arguments[0].getBoundingClientRect().left"
    before = [dataset.execute_script(place, one) for one in (first, second)]
    dataset.execute_script("arguments[0].scrollLeft = 150", box)
    after = [dataset.execute_script(place, one) for one in (first, second)]
    assert (after[0], after[1]) == (before[0], before[1] - 150)


def test_every_page_opens_named_labelled_and_asks_for_files_only(browser, site):
    browser.get_log("performance")
    pages = sorted(site.rglob("*.html"))
    for page in pages:
        visit(browser, page)
        assert browser.title.endswith("mtbench leaderboard")
        assert (
            browser.execute_script(
                """return [...document.querySelectorAll("a, button, input, [role=region], [role=img]")].filter((e) =>
                !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.textContent.trim()
                  || (e.labels && e.labels.length))).map((e) => e.outerHTML)"""
            )
            == []
        )
        assert browser.execute_script("return document.querySelectorAll('th:not([scope])').length") == 0
        entries = browser.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)")
        assert all(name.startswith(("file:", "data:")) for name in entries)
    asked = [
        message["params"]["request"]["url"]
        for entry in browser.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"] == "Network.requestWillBeSent"
    ]
    assert len(asked) >= 3 * len(pages)
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
