# SPDX-License-Identifier: Apache-2.0
"""The site in a browser: scripts/docs makes it, and Chromium reads its pages from the disk."""

from __future__ import annotations

import re
import shutil
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urljoin

import pytest
from playwright.sync_api import sync_playwright

SITE = Path(__file__).parents[2] / "build" / "site"
PAGES = sorted(
    str(page.relative_to(SITE))
    for page in SITE.rglob("*.html")
    if page.name not in ("genindex.html", "search.html", "py-modindex.html")
)
PICTURES = """() => [...document.images].filter(each => !each.alt.trim()).map(each => each.src)"""
BROKEN = """() => [...document.images].filter(each => !each.naturalWidth).map(each => each.src)"""
OVERFLOW = """() => document.documentElement.scrollWidth - document.documentElement.clientWidth"""
# Output, code and tables that are wider than the page, and do not scroll.
CUT = """() => [...document.querySelectorAll('article pre, article table')].filter(each => {
  const scrolls = node => ['auto', 'scroll'].includes(getComputedStyle(node).overflowX);
  const right = each.getBoundingClientRect().right > document.documentElement.clientWidth;
  return (right && !scrolls(each.parentElement))
    || (each.scrollWidth > each.clientWidth && !scrolls(each) && !scrolls(each.parentElement));
}).map(each => each.textContent.slice(0, 60))"""
# Code within a text that ends right of the screen.
LONG = """() => [...document.querySelectorAll('article code')]
  .filter(each => !each.closest('pre, table'))
  .filter(each => each.getBoundingClientRect().right > document.documentElement.clientWidth)
  .map(each => each.textContent.slice(0, 60))"""
# Tables of text that a reader on a telephone has to scroll.
WIDE = """() => [...document.querySelectorAll('article table[data-text]')]
  .filter(each => innerWidth < 640 && each.scrollWidth > each.clientWidth)
  .map(each => each.textContent.slice(0, 60))"""
# R within a text that was not executed, as a line break after `r leaves it.
UNEXECUTED = """() => [...document.querySelectorAll('article :not(pre) > code')]
  .map(each => each.textContent).filter(text => /^r\\s+\\w+\\(/.test(text))"""
WORDS = """() => document.querySelector('article').innerText.split(/\\s+/).length"""


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-dev-shm-usage"],  # for root, and in containers
        )
        yield browser
        browser.close()


@pytest.fixture(params=[1280, 390], ids=["wide", "narrow"], scope="module")
def tab(request, browser):
    """Give a tab, and the addresses that its pages have asked for."""
    page = browser.new_page(viewport={"width": request.param, "height": 900})
    page.asked = []
    page.on("request", lambda each: page.asked.append(each.url))
    return page


def faults_of(tab, name):
    tab.asked.clear()
    tab.goto((SITE / name).as_uri())
    overflow = tab.evaluate(OVERFLOW)
    if overflow > 0:
        yield f"{overflow} pixels are right of the screen"
    for picture in tab.evaluate(PICTURES):
        yield f"no alternative text: {picture}"
    for picture in tab.evaluate(BROKEN):
        yield f"no picture: {picture}"
    for text in tab.evaluate(CUT) + tab.evaluate(LONG):
        yield f"cut off: {text}"
    for text in tab.evaluate(WIDE):
        yield f"scrolls: {text}"
    for text in tab.evaluate(UNEXECUTED):
        yield f"not executed: {text}"
    for url in tab.asked:
        if not url.startswith(("file:", "data:")):
            yield f"asks for {url}"
    if tab.evaluate(WORDS) > 2000 and not tab.query_selector(".toc-tree"):
        yield "over 2,000 words without contents"


def test_pages_fit_and_ask_no_other_site(tab):
    assert len(PAGES) > 100
    assert {name: found for name in PAGES if (found := [*faults_of(tab, name)])} == {}


def test_no_markup_is_shown():
    marks = re.compile(r"\{width=|^:::|\]\(\w+\.Rmd", re.MULTILINE)
    assert [name for name in PAGES if marks.search((SITE / name).read_text())] == []


@pytest.mark.parametrize("name", ["estimators", "inference", "keras", "systems"])
def test_networks_of_guides_were_trained(name):
    page = next(SITE.glob(f"*/{name}.html")).read_text()
    assert not re.search("SPARKRING_PYTHON|RETICULATE_PYTHON", page)  # asks for one


def test_links_and_anchors_answer():
    texts = {(SITE / name).resolve(): (SITE / name).read_text() for name in PAGES}
    ids = {path: {*re.findall(r'\bid="([^"]+)"', text)} for path, text in texts.items()}
    missing = set()
    for page, text in texts.items():
        for link in {unescape(each) for each in re.findall(r'<a [^>]*?href="([^"]+)"', text)}:
            path, _, anchor = unquote(urljoin(page.as_uri(), link)).partition("#")
            if not path.startswith("file://"):
                continue
            target = Path(path.removeprefix("file://"))
            if not target.exists() or (anchor and target in ids and anchor not in ids[target]):
                missing.add(f"{page.relative_to(SITE.resolve())}: {link}")
    assert missing == set()
    assert len(texts) > 100


@pytest.mark.parametrize("word", ["allreduce", "Databricks", "ring_glm"])
def test_search_finds(tab, word):
    tab.goto((SITE / "search.html").as_uri() + f"?q={word}")
    tab.wait_for_selector("ul.search li a", timeout=30_000)
    assert tab.locator("ul.search li a").count() > 0
