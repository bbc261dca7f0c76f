"""The figures of gmm-flow, drawn from rows."""

from collections.abc import Callable
from math import sqrt

import numpy as np
from matplotlib.figure import Figure

from featureprism.lab import Rows
from featureprism.lab.style import COLOURS, band, guide, over_seeds, panels
from featureprism.theory import gmm_flow as theory

NAMES = {
    "bayes": "Bayes",
    "prelu": "pReLU",
    "relu": "ReLU",
    "mlp": "4-layer MLP",
    "tanh": "Tanh",
    "logistic": "logistic regression",
    "prelu small": "pReLU, small start",
    "polynomial small": "polynomial ReLU, small start",
    "prelu large": "pReLU, large start",
    "polynomial large": "polynomial ReLU, large start",
}


def largest(values: list[float]) -> float:
    """The largest of the values that are numbers, 0 if none is."""
    return max((v for v in values if v == v), default=0.0)


def robust_accuracy(rows: Rows) -> Figure:
    """Robust accuracy against radius: a band from certified to attacked per model, the line being the attacked side."""
    figure, (axes,) = panels(1, width=5.6, height=3.4)
    summaries = rows.of("summary")
    trained = summaries.where(lambda row: "self_test_passed" in row)  # a network that diverged has no curve
    models = trained.distinct("model")
    for colour, model in zip(COLOURS, models, strict=False):
        own = rows.of("curve", model=model)
        x, _, attacked, _ = over_seeds(own, "radius", "attacked_accuracy")
        certified = over_seeds(own, "radius", "certified_accuracy")[2]
        band(axes, x, certified, attacked, attacked, colour, NAMES[model], dashed=model in ("bayes", "tanh"))
    k = summaries[0]["positive"] + summaries[0]["negative"]
    guide(axes, 1 / sqrt(k), f"1/√{k}")
    guide(axes, theory.LARGEST_RADIUS, "√2/2")
    passed = all(r["self_test_passed"] for r in trained)
    verdict = "F³ falls at 0.75, holds at 0.68" if passed else "FAILED: do not believe these curves"
    zero, blind = (largest([r[name] for r in trained]) for name in ("zero_gradient_share", "blind_share"))
    told = f"attack self-test: {verdict}\nvanished gradients {zero:.0%}; plain PGD misses up to {blind:.0%}"
    axes.set_title(told, color="0.3", fontsize=8)
    axes.set(xlabel="ℓ2 radius", ylabel="robust accuracy: proven to attacked", xlim=(0, 0.85), ylim=(0, 1.03))
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def recipes(rows: Rows) -> Figure:
    """50 % radius against the step size, one colour per loss."""
    figure, (axes,) = panels(1, width=4.4, height=3.0)
    for colour, (loss, own) in zip(COLOURS, rows.of("summary").groups("loss").items(), strict=False):
        axes.plot(own.column("step_size"), own.column("half_radius"), "o", color=colour, alpha=0.5)
        x, _, mean, _ = over_seeds(own, "step_size", "half_radius")
        axes.plot(x, mean, color=colour, label=loss)
    guide(axes, theory.LARGEST_RADIUS, "√2/2", along="y")
    axes.set(xscale="log", xlabel="step size", ylabel="50 % radius", title="pReLU from std 0.01")
    axes.legend()
    return figure


def trajectory(rows: Rows) -> Figure:
    """Cosines of neurons and masses of clusters along the flow of the first seed, with the laws."""
    rows = rows.having(seed=rows.seeds[0])
    figure, (left, right) = panels(2, width=3.9, height=3.0)
    neurons, masses = rows.of("neuron"), rows.of("mass")
    for own in neurons.groups("neuron").values():
        colour = COLOURS[own[0]["cluster"] % len(COLOURS)]
        left.plot(own.column("time"), own.column("cosine"), color=colour, linewidth=0.9, alpha=0.8)
    unaligned = max((r["time"] for r in neurons if r["cosine"] < 0.99), default=1.0)
    left.set(xlabel="time", ylabel="cos(neuron, its centre)", xlim=(0, 1.3 * unaligned))
    left.set_title("(a) every neuron, coloured by cluster")
    for k, own in masses.groups("cluster").items():
        right.plot(own.column("time"), own.column("mass"), color=COLOURS[k % len(COLOURS)], linewidth=1.2)
        seen = own.where(lambda row: row["mass"] >= 0.01)
        law = [theory.nominal_mass(seen[0]["mass"], r["time"] - seen[0]["time"]) for r in seen]
        label = "dS/dt = 2S(1-S)" if k == 0 else None
        right.plot(seen.column("time"), law, color="k", linestyle=":", linewidth=1, label=label)
    right.set(xlabel="time", ylabel="cluster mass S", title="(b) mass of every cluster")
    right.legend(loc="upper left")
    return figure


def descent(rows: Rows) -> Figure:
    """Alignment, loss and distance along descent, one colour per start."""
    figure, (first, second, third) = panels(3, width=3.1, height=2.8)
    steps = rows.of("step")
    for colour, start in zip(COLOURS, steps.distinct("start"), strict=False):
        own = steps.having(start=start)
        x, _, median, _ = over_seeds(own, "step", "alignment")
        low, high = over_seeds(own, "step", "alignment_low")[2], over_seeds(own, "step", "alignment_high")[2]
        band(first, x, low, median, high, colour, start, start == "nudged as printed")
        dashed = start == "nudged as printed"
        band(second, *over_seeds(own, "step", "mean_square"), colour, start, dashed)
        band(third, *over_seeds(own, "step", "distance"), colour, start, dashed)
    first_row = steps[0]
    guide(second, first_row["p"] ** 2 * first_row["alpha"] ** 2 / first_row["dim"], "p²α²/D", along="y")
    tilt = first_row["alpha"] / sqrt(first_row["per_cluster"])
    guide(third, theory.kappa(first_row["p"]) * tilt, "κ α/√N", along="y")
    first.set(xlabel="step", ylabel="largest cosine with a centre", title="(a) alignment: median, quartiles")
    second.set(xlabel="step", ylabel="mean square", yscale="log", title="(b) training loss")
    third.set(xlabel="step", ylabel="sup |f - F|", yscale="log", title="(c) distance to F³ on the sphere")
    first.legend(loc="lower right")
    return figure


def theorem_1(rows: Rows) -> Figure:
    """Distance against α for both laws of N, and along the flow at the smallest α."""
    figure, (left, right) = panels(2, width=3.7, height=3.0)
    summaries = rows.of("summary")
    for colour, series in zip(COLOURS, ("scaled N", "fixed N"), strict=False):
        own = summaries.having(series=series)
        x, low, mean, high = over_seeds(own, "alpha", "distance")
        slope = np.polyfit(np.log(x), np.log(mean), 1)[0]
        name = "N = α⁻²" if series == "scaled N" else f"N = {own[0]['per_cluster']}"
        left.errorbar(
            x, mean, [mean - low, high - mean], fmt="o", color=colour, label=f"{name}: slope {slope:.2f}"
        )
        predicted = over_seeds(own, "alpha", "predicted_distance")[2]
        left.plot(x, predicted, color=colour, linestyle="--", linewidth=1)
    left.set(xscale="log", yscale="log", xlabel="α", ylabel="least sup |f - F|", title="(a) dashed: κ α/√N")
    left.legend(loc="upper left")
    for colour, alpha in zip(COLOURS, sorted({r["alpha"] for r in summaries}), strict=False):
        own = rows.of("time", series="scaled N", alpha=alpha)
        for seed, run in own.groups("seed").items():
            label = f"α = {alpha:g}" if seed == own[0]["seed"] else None
            times = run.column("time")
            right.plot(times - times[0], run.column("distance"), color=colour, label=label, lw=1)
    right.set(yscale="log", xlabel="time after the predicted learning time", ylabel="sup |f - F|")
    right.set_title("(b) it falls, then slowly drifts up")
    right.legend()
    return figure


def alignment(rows: Rows) -> Figure:
    """Cosines of one neuron of each kind at the largest α, and t₁ against α with its law."""
    figure, (left, right) = panels(2, width=3.9, height=3.0)
    phases = rows.of("phase")
    first = rows.of("track", series="alpha", alpha=max(r["alpha"] for r in phases), seed=rows.seeds[0])
    for colour, (kind, own) in zip(COLOURS, first.groups("neuron").items(), strict=False):
        left.plot(own.column("time"), own.column("own"), color=colour, label=f"{kind}: own centre")
        left.plot(own.column("time"), own.column("other"), color=colour, linestyle=":", linewidth=1)
    left.set(xlabel="time", ylabel="cosine", xlim=(0, 3), title="(a) dotted: a centre of the other class")
    left.legend(loc="center right")
    for colour, (p, own) in zip(COLOURS, phases.groups("p").items(), strict=False):
        x, low, mean, high = over_seeds(own, "alpha", "t1")
        right.errorbar(x, mean, [mean - low, high - mean], fmt="o", color=colour, label=f"p = {p:g}")
        right.plot(*over_seeds(own, "alpha", "predicted_t1")[::2], color=colour, linestyle="--", linewidth=1)
    right.set(xscale="log", xlabel="α", ylabel="t₁", title="(b) time to align; dashed: nominal")
    right.legend()
    return figure


def losses(rows: Rows) -> Figure:
    """Best-scale distance and mean mass under each loss, against the time since learning."""
    figure, (left, right) = panels(2, width=3.9, height=3.0)
    clean = rows.of("time", series="clean").where(lambda row: row["after"] >= 1)
    for colour, (loss, own) in zip(COLOURS, clean.groups("loss").items(), strict=False):
        band(left, *over_seeds(own, "after", "over_tilt_law"), colour, loss)
        band(right, *over_seeds(own, "after", "mass"), colour, loss)
    guide(left, 1.0, "κ α/√N", along="y")
    left.set(xscale="log", yscale="log", xlabel="time since learning", ylabel="least sup |c f - F| ÷ κ α/√N")
    left.set_title("(a) only the square loss drifts away")
    right.set(xscale="log", xlabel="time since learning", ylabel="mean cluster mass", title="(b) growth")
    left.legend()
    return figure


def metrics(rows: Rows) -> Figure:
    """Mean radius ÷ the bound of Proposition 1 in each metric, of both rules, with the prediction."""
    figure, (axes,) = panels(1, width=4.4, height=3.0)
    for position, own in enumerate(rows.of("metric").groups("norm").values()):
        for shift, name in ((-0.2, "rule"), (0.2, "matched")):
            label = (
                {"rule": "Bayes rule", "matched": "nearest centre in the metric"}[name]
                if position == 0
                else None
            )
            colour = COLOURS[0] if name == "rule" else COLOURS[2]
            axes.bar(position + shift, own.column(name).mean(), width=0.35, color=colour, label=label)
        predicted = own.column("predicted").mean()
        axes.plot([position - 0.4, position], [predicted, predicted], color="k", linestyle=":")
    names = [f"ℓ{'∞' if norm == 'inf' else norm}" for norm in rows.of("metric").distinct("norm")]
    axes.set_xticks(range(len(names)), names)
    axes.set(ylabel="mean radius ÷ ½ ‖μ - μ'‖", ylim=(0, 1.25), title="dotted: predicted for the Bayes rule")
    axes.legend(loc="upper left")
    return figure


def propositions(rows: Rows) -> Figure:
    """Robust error of every classifier at √2/2, and the exact radii of Bayes and F^(p)."""
    figure, (left, right) = panels(2, width=3.9, height=3.0)
    errors = rows.of("error")
    names = errors.distinct("classifier")
    for position, name in enumerate(names):
        own = errors.having(classifier=name)
        left.barh(position, own.column("robust_error").mean(), color=COLOURS[0], alpha=0.35)
        left.barh(position, own.column("midpoint_error").mean(), color=COLOURS[0], height=0.4)
        few, many = sorted((own[0]["positive"], own[0]["negative"]))
        bound = few / (few + many)
        left.plot([bound, bound], [position - 0.4, position + 0.4], color=COLOURS[1])
    left.set_yticks(range(len(names)), names)
    passed = "passed" if all(r["self_test_passed"] for r in errors) else "FAILED"
    left.set(xlabel=f"robust error at √2/2 (attack self-test {passed})", xlim=(0, 1.02))
    left.set_title("(a) thin bar: midpoints alone; red: min(K₁,K₂)/K")
    for colour, name in zip(COLOURS, rows.of("radius").distinct("name"), strict=False):
        x, low, mean, high = over_seeds(rows.of("radius", name=name), "quantile", "radius")
        right.fill_betweenx(1 - x, low, high, color=colour, alpha=0.2, linewidth=0)
        right.plot(mean, 1 - x, color=colour, label=name, linestyle="-" if name == "bayes" else "--")
    guide(right, theory.LARGEST_RADIUS, "√2/2")
    right.set(xlabel="ℓ2 radius", ylabel="share of points still right", title="(b) exact radii")
    right.legend(loc="lower left")
    return figure


DRAWINGS: dict[str, Callable[[Rows], Figure]] = {
    "gmm-flow/figure-2": robust_accuracy,
    "gmm-flow/figure-2-one-start": robust_accuracy,
    "gmm-flow/figure-4": trajectory,
    "gmm-flow/figure-5": descent,
    "gmm-flow/figure-6": descent,
    "gmm-flow/figure-7": robust_accuracy,
    "gmm-flow/figure-7-recipes": recipes,
    "gmm-flow/theorem-1": theorem_1,
    "gmm-flow/alignment": alignment,
    "gmm-flow/losses": losses,
    "gmm-flow/metrics": metrics,
    "gmm-flow/propositions": propositions,
}
