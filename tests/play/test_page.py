"""The page in a real browser. Every wait is for a condition; none depends on how fast the machine is."""

import pytest

from play.files import write_own

pytest.importorskip("selenium", reason="the browser tests need selenium (featureprism[dev])")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

PATIENCE = 300  # seconds until a condition counts as never met
SMALL = "classes=%2B-&start=-1"  # two clusters, learned in a second


def until(browser, condition):
    """What a JavaScript expression gives once it is true."""
    return WebDriverWait(browser, PATIENCE, poll_frequency=0.05).until(
        lambda b: b.execute_script(f"return {condition}")
    )


def visit(browser, url):
    """A fresh page, whatever was open before; what that one says while it is left is not this one's."""
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(url)


def no_complaints(browser):
    """Nothing in the console and no error on the page."""
    assert [line["message"] for line in browser.get_log("browser")] == []
    assert not browser.find_element(By.ID, "error").is_displayed()


def test_load_play_pause_and_step(browser, address):
    visit(browser, f"{address}#{SMALL}")
    until(browser, "Number(document.body.dataset.frame) > 2")  # it plays by itself
    until(browser, "Clusters.player().complete")
    browser.execute_script(
        "Clusters.player().pause(); Clusters.player().go(5); document.activeElement.blur()"
    )
    ActionChains(browser).send_keys("\ue014").perform()  # right arrow
    assert until(browser, "document.body.dataset.frame === '6'")
    assert "frame=6" in browser.current_url
    ActionChains(browser).send_keys(" ").perform()
    until(browser, "Number(document.body.dataset.frame) > 6")
    assert len(browser.find_elements(By.CSS_SELECTOR, "#fig-compass .neuron")) == 60
    no_complaints(browser)


def test_switching_p_keeps_the_run_before_as_a_ghost_and_the_address_shares_it(browser, address):
    visit(browser, f"{address}#{SMALL}")
    before = float(until(browser, "document.body.dataset.radius"))
    browser.find_element(By.CSS_SELECTOR, "#powers [data-p='3']").click()
    until(browser, "location.hash.includes('p=3')")
    after = float(until(browser, "document.body.dataset.radius"))
    assert after != before
    assert browser.find_elements(By.CSS_SELECTOR, "#fig-curve .ghost-band")
    assert len(browser.find_elements(By.CSS_SELECTOR, "#runs tbody tr")) == 2
    shared = browser.current_url
    visit(browser, shared)
    assert float(until(browser, "document.body.dataset.radius")) == after
    until(browser, "document.querySelector('#fig-curve .ghost-band') !== null")
    assert (
        browser.find_element(By.CSS_SELECTOR, "#powers [data-p='3']").get_attribute("aria-pressed") == "true"
    )
    no_complaints(browser)


def place_answered(browser, condition):
    """The place (s, t) of the point once it meets a condition and its ball is drawn: asked in one go, so no event falls between."""
    return until(
        browser,
        "(() => { const [s, t] = [State.get('s'), State.get('t')].map(Number);"
        " const drawn = document.querySelector('#fig-slice .ball') && Number(document.body.dataset.nearest) > 0;"
        f" return drawn && {condition} ? [s, t] : null; }})()",
    )


def test_dragging_the_point_finds_its_ball_and_the_address_keeps_it(browser, address):
    visit(browser, f"{address}#{SMALL}&frame=8")
    # with the verdict told, nothing above the figure grows and moves it under the pointer
    until(
        browser, "Clusters.player().complete && document.body.dataset.nearest && document.body.dataset.radius"
    )
    handle = browser.find_element(By.CSS_SELECTOR, "#fig-slice .handle")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", handle)
    ActionChains(browser).drag_and_drop_by_offset(handle, -40, 30).perform()
    s, t = place_answered(browser, "s < 0.9 && t < -0.05")
    handle.send_keys("\ue013")  # arrow up
    place_answered(browser, f"Math.abs(s - {s}) < 2e-3 && Math.abs(t - {t} - 0.05) < 2e-3")
    text = browser.execute_script("return Draw.asSvgText(document.querySelector('#fig-slice svg'))")
    assert text.startswith("<svg")
    assert "var(" not in text
    no_complaints(browser)


def test_a_bad_address_is_one_sentence(browser, address):
    visit(browser, f"{address}#classes=xyz")
    assert "Clusters are 2 to 12 signs" in until(browser, "document.getElementById('error').textContent")


def test_own_file_and_bad_file(browser, address, tmp_path):
    model, data = write_own(tmp_path)
    bad = tmp_path / "bad.npz"
    bad.write_bytes(b"not an archive")
    visit(browser, f"{address}#tab=own")
    browser.find_element(By.ID, "own-model").send_keys(str(bad))
    browser.find_element(By.ID, "own-data").send_keys(str(data))
    browser.find_element(By.ID, "own-run").click()
    assert "Cannot read bad.npz" in until(browser, "document.getElementById('own-error').textContent")
    browser.find_element(By.ID, "own-model").send_keys(str(model))
    browser.find_element(By.ID, "own-run").click()
    assert until(browser, "document.getElementById('own-run').dataset.done") == "8"
    assert len(browser.find_elements(By.CSS_SELECTOR, "#cards .card")) == 3
    assert len(browser.find_elements(By.CSS_SELECTOR, "#worst tbody tr")) == 8
    assert browser.execute_script("return document.getElementById('own-error').hidden")
    no_complaints(browser)


@pytest.mark.slow
def test_sparse_coding_plays_to_its_end(browser, address):
    visit(browser, f"{address}#tab=sparse")
    until(browser, "document.body.dataset.sparseFrame === '56'")
    until(browser, "document.getElementById('sparse-verdict').textContent.includes('haze')")
    no_complaints(browser)


def test_the_tour_explains_averaging_and_ends(browser, address):
    visit(browser, f"{address}#{SMALL}")
    until(browser, "document.body.dataset.frame")
    browser.find_element(By.ID, "tour-start").click()
    seen = []
    while not browser.execute_script("return document.getElementById('tour').hidden"):
        seen.append(browser.execute_script("return [State.get('labels'), State.get('p')].join()"))
        assert len(browser.find_elements(By.CSS_SELECTOR, ".looked-at")) == 1
        browser.find_element(By.ID, "tour-next").click()
    assert seen == ["two,1", "two,1", "two,1", "all,1", "all,1", "two,3"]
    no_complaints(browser)


def test_the_scenes_of_two_more_papers(browser, address):
    visit(browser, f"{address}#tab=papers&clusters=4")
    until(browser, "document.body.dataset.papers === 'done'")
    assert "One step of descent" in browser.find_element(By.ID, "papers-verdict").text
    assert "One perturbation is enough" in browser.find_element(By.ID, "edge-verdict").text
    assert len(browser.find_elements(By.CSS_SELECTOR, "#fig-trained .trail")) == 48
    no_complaints(browser)


def test_points_that_a_person_draws(browser, address):
    visit(browser, f"{address}#tab=drawn")
    until(browser, "document.querySelectorAll('#fig-drawn .centre').length === 12")
    figure = browser.find_element(By.CSS_SELECTOR, "#fig-drawn svg")
    ActionChains(browser).move_to_element(figure).click().perform()
    until(browser, "document.querySelectorAll('#fig-drawn .centre').length === 13")
    browser.find_element(By.ID, "drawn-train").click()
    assert until(browser, "document.body.dataset.drawn") == "13"
    assert "half of them break within" in browser.find_element(By.ID, "drawn-verdict").text
    no_complaints(browser)


def test_the_view_as_python_runs(browser, address, capsys):
    visit(browser, f"{address}#{SMALL}")
    browser.find_element(By.ID, "as-python").click()
    exec(browser.find_element(By.ID, "python").text, {})
    assert "half break between" in capsys.readouterr().out


def test_half_of_an_even_number_of_points_is_the_lower_one_of_the_middle(browser, address):
    visit(browser, f"{address}#tab=own")
    rows = "[4, 1, 3, 2].map(attacked => ({ attacked }))"
    assert browser.execute_script(f"return OwnTab.halfOf({rows})") == 2


def test_dark_and_narrow_pages_do_not_scroll_sideways(browser, address):
    visit(browser, f"{address}#{SMALL}&theme=dark")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 400, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    try:
        until(browser, "document.body.dataset.frame && document.body.dataset.radius")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
        assert (
            browser.execute_script("return getComputedStyle(document.body).backgroundColor")
            == "rgb(20, 22, 26)"
        )
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    no_complaints(browser)
