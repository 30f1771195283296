"""The page as a browser shows it: filters, nothing fetched, wide and narrow."""

import json

import pytest


@pytest.fixture
def opened(made, browser):
    """The browser on the page, with what it fetched."""
    browser.get((made / "report" / "index.html").as_uri())
    return browser


def shown_claims(browser):
    return browser.execute_script(
        "return [...document.querySelectorAll('#ledger tbody tr')].filter(r => r.offsetHeight)"
        ".map(r => r.id.replace('claim-', ''))"
    )


def choose(browser, control, value, event):
    browser.execute_script(
        "const c = document.getElementById(arguments[0]); c.value = arguments[1];"
        "c.dispatchEvent(new Event(arguments[2]))",
        control, value, event,
    )  # fmt: skip


def test_filters_leave_the_claims_that_fit(made, opened):
    rows = json.loads((made / "claims.json").read_text())
    assert shown_claims(opened) == [row["id"] for row in rows]
    choose(opened, "by-paper", "sparse", "change")
    verdict = next(row["verdict"] for row in rows if row["paper"] == "sparse")
    choose(opened, "by-verdict", verdict, "change")
    fitting = [r["id"] for r in rows if (r["paper"], r["verdict"]) == ("sparse", verdict)]
    assert shown_claims(opened) == fitting
    count = opened.execute_script("return document.getElementById('shown').textContent")
    assert count == f"{len(fitting)} of {len(rows)} claims"
    choose(opened, "by-text", "no claim says this", "input")
    assert shown_claims(opened) == []


def test_nothing_is_fetched(opened):
    fetched = opened.execute_script(
        "return performance.getEntriesByType('resource').map(entry => entry.name)"
    )
    assert fetched == []


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_its_window(opened, tmp_path, width):
    opened.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 1400, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    try:
        wide = opened.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width
        figures = opened.execute_script(
            "return [...document.querySelectorAll('figure > svg')]"
            ".map(f => f.getBoundingClientRect()).map(box => [box.width, box.height])"
        )
        assert len(figures) > 8
        assert all(100 < w <= width and h > 50 for w, h in figures)
        assert opened.save_screenshot(str(tmp_path / f"{width}.png"))
    finally:
        opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
