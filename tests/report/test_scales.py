"""The page that puts scales side by side, on claims whose ways are known."""

from featureprism.report.scales import scales_page


def claim(name, verdict, low, high, bound=1.0, relation="<="):
    middle = (low + high) / 2
    return {
        "id": name,
        "verdict": verdict,
        "measured": middle,
        "interval": [low, high],
        "values": [low, high],
        "bound": bound,
        "relation": relation,
        "aggregate": "mean",
        "reported": None,
        "slack": middle if relation != "in" else None,
        "loose": False,
    }


def item(*claims):
    about = {"id": "mine/first", "seeds": [1000, 1001], "seconds": 7200.0, "memory_mb": 512.0}
    return {"mine/first": about | {"commit": "abc", "versions": {"torch": "2"}, "claims": list(claims)}}


QUICK = item(
    claim("moves", "holds", 0.4, 0.5),
    claim("spread", "undecided", 0.5, 1.5),
    claim("better", "holds", 1.4, 1.5, [1.0, 3.0], "in"),
    claim("law", "holds", 0.4, 0.5),
)
PAPER = item(
    claim("moves", "fails", 1.4, 1.5),
    claim("spread", "holds", 0.7, 0.8),
    claim("better", "holds", 1.9, 2.1, [1.0, 3.0], "in"),
    claim("law", "fails", 0.4, 0.5, 0.1),
)


def line(page, start):
    return next(text for text in page.splitlines() if text.startswith(start))


def test_changed_verdicts_come_first_with_what_changed():
    page = scales_page({"quick": QUICK, "paper": PAPER})
    assert page.index("Verdicts that change") < page.index("Every claim") < page.index("What it costs")
    moved = line(page, "- `mine/moves`")
    assert (
        "**holds** at quick (0.45 ± 0.05; 2 of 2 seeds), **fails** at paper (1.45 ± 0.05; 0 of 2 seeds)"
        in moved
    )
    assert "the value itself moves" in moved
    assert "within the spread" in line(page, "- `mine/spread`")
    assert page.index("- `mine/moves`") < page.index("- `mine/spread`")
    assert "a law in the sizes: ≤ 0.1" in line(page, "- `mine/law`")
    assert "- `mine/better`" not in page


def test_arrows_tell_the_way_relative_to_the_bound():
    page = scales_page({"quick": QUICK, "paper": PAPER})
    assert line(page, "| `mine/moves`").endswith("⇘ |")
    assert line(page, "| `mine/spread`").endswith("→ |")
    assert line(page, "| `mine/better`").endswith("⇗ |")


def test_one_scale_has_costs_and_nothing_to_compare():
    page = scales_page({"quick": QUICK})
    assert "Only one scale is published so far." in page
    assert "| mine/first | 7200 s, 512 MB, abc |" in page
    assert "2.0 hours on one core" in page


def test_what_was_not_measured_is_no_movement():
    missing = item({**claim("moves", "not measured", 0.0, 0.0), "measured": None, "interval": [None, None]})
    page = scales_page({"quick": QUICK, "paper": missing})
    assert "not measured" in line(page, "- `mine/moves`")
