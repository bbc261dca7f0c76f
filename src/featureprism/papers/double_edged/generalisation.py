"""How well networks at KKT points generalise: Theorem 3.1."""

from dataclasses import dataclass, replace

from featureprism.context import Context
from featureprism.experiment import Claim, Experiment, Rows, at_least, at_most, under
from featureprism.papers.double_edged.setting import (
    EXACT_KINK,
    KINK,
    Trained,
    direction,
    error_of,
    inside_and_outside,
    ours,
    premises,
    problem,
    separation,
    trained,
)
from featureprism.probes import kkt_audit
from featureprism.records import Row
from featureprism.theory import double_edged as theory
from featureprism.training import max_margin_network

FEW = ((6, 0.01), (20, 1.0))
MANY = ((6, 0.1), (20, 0.01), (20, 0.1), (20, 1.0), (200, 0.1), (200, 1.0))


@dataclass(frozen=True, kw_only=True)
class Variants(Trained):
    """Networks of several widths and sizes of the start, in pairs."""

    variants: tuple[tuple[int, float], ...]


def measure(s: Variants, seed: int, context: Context) -> list[Row]:
    """Test error of the solver's point and of networks trained to near KKT points from several widths and starts."""
    data = problem(s, seed)
    x, y = data.train.x, data.train.y
    solution = max_margin_network(x, y)
    exact = kkt_audit(solution.net, x, y, tolerance=EXACT_KINK)
    rows: list[Row] = [
        {
            "kind": "point",
            "width_used": 2,
            "start_used": 0.0,
            "error": error_of(solution.net, data.test),
            "stationarity": exact.stationarity,
        }
    ]
    for index, (width, size) in enumerate(s.variants):
        net = trained(replace(s, width=width, start=size), data.train, seed)
        audit = kkt_audit(net, x, y, tolerance=KINK)
        rows.append(
            {
                "kind": "point",
                "width_used": width,
                "start_used": size,
                "error": error_of(net, data.test),
                "stationarity": audit.stationarity,
                "margin_share": audit.normalised_margin / exact.normalised_margin,
            }
        )
        context.progress((index + 1) / len(s.variants))
    least, bound = float((data.test.y * (data.test.x @ direction(data))).min()), theory.linear_margin(s.dim)
    rows.append(
        {
            "kind": "bound",
            "bound": theory.test_error_bound(separation(s, data)),
            "linear_least": least,
            "linear_bound": bound,
            "linear_over_bound": least / bound,
        }
    )
    return rows + premises(s, data)


def _trained(rows: Rows) -> Rows:
    return rows.of("point").where(lambda row: (row["start_used"] or 0) > 0)


CLAIMS = (
    *inside_and_outside(
        "error",
        "Theorem 3.1",
        "KKT points generalise: test error, largest over settings, widths and starts",
        lambda rows: rows.of("point").largest("error"),
        at_most(0.005),
    ),
    Claim(
        "linear",
        "Lemma 2.1 and Appendix B",
        "least y⟨u, x⟩ ÷ ((9d - 1)/10) on test points, inside the assumption",
        lambda rows: rows.of("bound", case="within").least("linear_over_bound"),
        at_least(1.0),
        premises=under("assumption-2-2", case="within"),
        over="every seed",
    ),
    ours(
        "residual",
        "beyond Theorem 2.1",
        f"stationarity of the trained networks (kinks within {KINK:g}), largest",
        lambda rows: _trained(rows).largest("stationarity"),
        at_most(0.01),
    ),
    ours(
        "margin",
        "beyond Theorem 2.1",
        "their normalised margin ÷ the solver's, smallest",
        lambda rows: _trained(rows).least("margin_share"),
        at_least(0.99),
    ),
)

THEOREM_3_1 = Experiment(
    id="double-edged/theorem-3-1",
    source="Frei et al. 2023, Theorem 3.1",
    title="KKT points generalise",
    scales={
        "quick": [made(variants=FEW, iterations=80) for made in (Variants.usual, Variants.within)],
        "standard": [
            made(variants=MANY, test_points=10000)
            for made in (Variants.usual, Variants.on_sphere, Variants.within)
        ],
        "paper": [
            Variants.usual(3072, 10, variants=MANY, test_points=100000),
            Variants.within(6000, 16, variants=MANY, test_points=100000),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about="Test error of the exact KKT point and of networks trained close to one, for pairs of a width and a size of the start.",
)
