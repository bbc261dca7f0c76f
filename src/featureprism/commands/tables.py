"""Tables of the commands on networks."""

from collections.abc import Sequence

from rich.table import Table

from featureprism.lab.rows import Row
from featureprism.lab.table import show
from featureprism.verify.referee import Ruling

KKT_WORDS = {
    "points": "points",
    "stationarity": "stationarity: ‖θ - Σ λ_i y_i ∇N(x_i)‖/‖θ‖ (0 at a KKT point)",
    "stationarity_w": "  in the first-layer weights",
    "stationarity_b": "  in the biases",
    "stationarity_v": "  in the second layer",
    "slackness": "complementary slackness: largest λ_i (margin - 1)/Σλ (0)",
    "feasibility": "1 - least margin as given; the audit rescales to least margin 1",
    "balance": "balance: |v_j² - ‖w_j‖² - b_j²|/max v² (0)",
    "sum_gap": "|Σλ/(‖θ‖²/2) - 1| (0)",
    "normalised_margin": "normalised margin: least y N(x)/‖θ‖²",
    "support": "support points (λ_i > 0)",
    "on_kink": "pairs (neuron, point) on a kink",
    "tolerance": "tolerance of kinks",
    "reference": "compared with",
    "reference_stationarity": "  its stationarity",
    "margin_share": "  this network's margin ÷ its margin",
    "cosine_positive": "  cosine of the summed neurons with v > 0",
    "cosine_negative": "  cosine of the summed neurons with v < 0",
    "forgotten": "one ascent step takes out point",
    "forgotten_multiplier": "  its multiplier λ",
    "forgotten_share": "  the step ÷ ‖θ‖",
    "forgotten_margin": "  its margin after the step, the least before being 1",
    "forgotten_least": "  least margin of the others after the step (at most 0: some are lost)",
    "epsilon_before": "  ε on the others without the step: ‖θ - Σ λ_i y_i ∇N(x_i)‖",
    "epsilon_after": "  ε after it (None: no KKT point, some are lost)",
    "delta_before": "  δ on the others without the step: largest λ_i (margin - 1)",
    "delta_after": "  δ after it",
    "witness": "other data with the same network",
    "witness_points": "  points",
    "witness_moved": "  farthest move ÷ the point's norm",
    "witness_stationarity": "  stationarity on them",
    "witness_slackness": "  complementary slackness on them",
}


def kkt_table(facts: Row) -> Table:
    """The numbers of a KKT audit with their names."""
    table = Table(title="KKT conditions of the max-margin problem", title_justify="left", show_header=False)
    for key, text in KKT_WORDS.items():
        if key in facts:
            value = facts[key]
            table.add_row(text, show(value) if isinstance(value, float) else str(value))
    return table


def rulings_table(rulings: Sequence[Ruling]) -> Table:
    """A published curve, claim by claim."""
    table = Table(title="robust accuracy")
    for name in ("radius", "claimed", "proven", "not witnessed", "ruling"):
        table.add_column(name)
    for r in rulings:
        numbers = (f"{r.radius:g}", f"{r.claimed:g}", f"{r.least:.3f}", f"{r.most:.3f}")
        table.add_row(*numbers, "possible" if r.possible else f"[red]impossible[/red], {r.fault}")
    return table
