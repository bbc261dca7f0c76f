"""The table of main findings, from the last published results: never written by hand."""

from pathlib import Path
from typing import Any

from featureprism.lab import all_papers
from featureprism.lab.published import figure_path, read_published
from featureprism.lab.table import ClaimTable, counts, in_words, measured

MARK, FIGURES_MARK, STATUS_MARK = "% main findings", "% figures", "% status"
# what it says, the claims that measure it (item:name), what theory says
FINDINGS = (
    (
        "50 % radius of a trained pReLU network ÷ the largest of ReLU, Tanh and logistic regression from one start",
        ["gmm-flow/figure-2-one-start:ahead"],
        "√10 = 3.16 at best",
    ),
    (
        "50 % radius of ReLU / Tanh / a deep MLP / logistic regression",
        [f"gmm-flow/figure-2:{kind}" for kind in ("relu", "tanh", "mlp", "logistic")],
        "not robust; near 1/√20 = 0.224 where features are averaged",
    ),
    (
        "largest distance to F^(p) over the window of Theorem 1 falls as α^…",
        ["gmm-flow/theorem-1:window"],
        "2",
    ),
    ("50 % radius ÷ √(d/k) with two labels", ["feature-averaging/figure-3:two-class"], "1"),
    (
        "50 % radius ÷ √(d/2) with a label for each cluster",
        ["feature-averaging/figure-3:ten-class"],
        "1, the best possible",
    ),
    (
        "correlation with a cluster after one step, as a power of d (before it: -1/2)",
        ["feature-amplification/amplification:order-after"],
        "0",
    ),
    (
        "least C at which the conclusion of Theorem 3.1 holds for a network with fixed features ÷ for one whose features move",
        ["feature-amplification/critical-c:lazy"],
        "above 1 if features had to move",
    ),
    (
        "norm that breaks the KKT point with one neuron for each class ÷ proven radius of a robust network of the same size",
        ["double-edged/assumption-2-2:contrast"],
        "below 1",
    ),
    (
        "exponent of k in the norm of one perturbation that flips all points",
        ["double-edged/scaling:order"],
        "at most -1/2",
    ),
    (
        "proven radius of the robust network of the same size ÷ the promised √d/8",
        ["double-edged/theorem-4-1:promise"],
        "at least 1 (4 for orthogonal means)",
    ),
    (
        "robust accuracy that foolbox PGD claims for a pReLU network of which every point can be flipped",
        ["beyond/blind-attacks:prelu-pgd"],
        "0 is the truth",
    ),
)

# an item, and what its figure shows
FIGURES = {
    "feature-averaging/figure-3": "Two labels average the features and break at √(d/k), under one universal direction; "
    "ten labels hold beyond it (feature-averaging, Figure 3; bands from proven to attacked).",
    "double-edged/theorem-4-2": "KKT points of one training set, by margin and by the norm along Σ y μ that breaks them "
    "(double-edged, Theorem 4.2).",
    "feature-purification/figure-7": "Perturbations of a clean and of an adversarially trained network on CIFAR-10 "
    "(feature-purification, Figure 7). What more epochs or noise alone would have done: [the zoo](zoo.md).",
}


def findings_table(results: Path) -> str:
    """One row for each finding whose items are published as they are now: mean ± half of the interval, and the verdict."""
    items = read_published(results).get("quick", {})
    claims = {
        f"{id}:{claim['id'].partition('.')[2]}": claim
        for id, item in items.items()
        if item["is_current"]
        for claim in item["claims"]
    }
    lines = ["| paper | finding | measured | verdict | theory |", "|---|---|---|---|---|"]
    for words, names, theory in FINDINGS:
        if all(name in claims for name in names):
            chosen = [claims[name] for name in names]
            numbers, verdicts = " / ".join(map(measured, chosen)), " / ".join(c["verdict"] for c in chosen)
            lines.append(f"| {names[0].partition('/')[0]} | {words} | {numbers} | {verdicts} | {theory} |")
    used = [items[name.partition(":")[0]] for _, names, _ in FINDINGS for name in names if name in claims]
    seeds = {str(seed) for item in used for seed in item["seeds"]}
    versions = ", ".join(sorted({item["featureprism"] for item in used}))
    return f"Seeds {', '.join(sorted(seeds))}, version {versions}.\n\n" + "\n".join(lines)


def figures(docs: Path) -> str:
    """The figures that were published at the quick scale, each with what it shows."""
    paths = {words: figure_path(docs / "results", id, "quick") for id, words in FIGURES.items()}
    return "\n\n".join(
        f"![{words.partition(' (')[0]}]({path.relative_to(docs)})\n\n*{words}*"
        for words, path in paths.items()
        if path.is_file()
    )


def status(results: Path) -> str:
    """How many headline claims of the five papers hold, fail and so on, in one line."""
    published = read_published(results)
    items = [item for paper in all_papers().values() if paper.name != "beyond" for item in paper.experiments]
    lines = [line for item in items for line in ClaimTable.of_published(item, published).headlines()]
    return f"Of the {len(lines)} headline claims of the papers {in_words(counts(lines))}."


def _read(app: Any, name: str, source: list[str]) -> None:
    if name == "index":
        source[0] = source[0].replace(STATUS_MARK, status(Path(app.srcdir) / "results"))
    if name == "findings":
        docs = Path(app.srcdir)
        source[0] = (
            source[0].replace(MARK, findings_table(docs / "results")).replace(FIGURES_MARK, figures(docs))
        )


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", _read)
    app.connect(
        "env-get-outdated", lambda *_: ["findings", "index"]
    )  # results change without a change of the page
    return {"parallel_read_safe": True, "parallel_write_safe": True}
