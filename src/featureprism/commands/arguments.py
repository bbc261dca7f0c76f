"""The arguments of every command. Nothing heavy is imported here, so that --help and --version answer at once."""

import argparse
from collections.abc import Callable
from pathlib import Path

from featureprism import __version__

Add = Callable[[str, str, str], argparse.ArgumentParser]
DATA = "FEATUREPRISM_DATA"  # the folder of real data, or one .npz file
DEVICE = "FEATUREPRISM_DEVICE"  # where image networks are trained: cpu, cuda, mps
SCALES = ("quick", "standard", "paper")
IMAGES = ("cifar10", "mnist")  # what can be fetched
NORMS = ("1", "2", "inf", "l1", "l2", "linf")


def parser() -> argparse.ArgumentParser:
    """The arguments of every command."""
    top = argparse.ArgumentParser(
        prog="featureprism",
        description="What features gradient descent finds, and how far the networks that use them are from breaking.",
    )
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(dest="command", required=True)

    def add(name: str, text: str, example: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, help=text, description=text, epilog=f"Example: featureprism {example}"
        )

    for add_group in (_experiments, _networks, _kkt, _sweeps, _audit, _explain, _data, _zoo, _play):
        add_group(add)
    return top


def _experiments(add: Add) -> None:
    """The arguments of the commands."""
    listing = add(
        "list", "Show the papers, or the items of a paper and what a seed of them costs.", "list gmm-flow"
    )
    listing.add_argument(
        "name",
        nargs="?",
        default="",
        metavar="PAPER[/ITEM]",
        help="whose items to list; all: of every paper (default: the papers alone)",
    )
    listing.add_argument("--json", action="store_true", help="print JSON")
    showing = add(
        "show",
        "Show what a paper or one of its items measures, its settings and claims, and where its code is.",
        "show gmm-flow/figure-2",
    )
    showing.add_argument("name", metavar="PAPER[/ITEM]", help="a paper or one of its items")
    claims = add(
        "claims",
        "Show what is claimed, by whom and with which bound, without running anything.",
        "claims gmm-flow/figure-2",
    )
    _add_name(claims, "whose claims")
    claims.add_argument("--json", action="store_true", help="print JSON")
    premises = add(
        "premises",
        "Is a setting inside a theorem, and which premise fails by how much? Without a name: which theorems there are.",
        "premises feature-averaging/theorem-4-5 --set d=10000 --set n=200",
    )
    premises.add_argument(
        "name", metavar="PAPER[/THEOREM]", nargs="?", default="", help="a theorem, or a paper"
    )
    premises.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SIZE=VALUE",
        help="another value for a size, by its name or by the paper's letter; may be repeated",
    )
    premises.add_argument("--json", action="store_true", help="print JSON")
    doing = add(
        "reproduce",
        "Run the experiments of a paper and judge its claims.",
        "reproduce gmm-flow/figure-5 --scale quick --out runs",
    )
    doing.add_argument("name", metavar="PAPER[/ITEM]", help="a paper, one of its items, or all")
    doing.add_argument("--scale", choices=SCALES, default="quick", help="how large (default: quick)")
    doing.add_argument("--seeds", type=int, default=3, metavar="N", help="how many seeds (default: 3)")
    doing.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed (default: 0)")
    doing.add_argument(
        "--out", type=Path, default=Path("runs"), metavar="DIR", help="where results go (default: runs)"
    )
    add_executor(doing)
    add_context(doing)
    doing.add_argument(
        "--slow", action="store_true", help="with a paper: also its items on real data that take minutes each"
    )
    doing.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="another value for a field of the settings; may be given several times",
    )
    doing.add_argument(
        "--fresh",
        type=Path,
        metavar="FOLDER",
        help="only items that changed since they were published in FOLDER, each on its next block of five unused seeds",
    )
    doing.add_argument(
        "--until-decided",
        type=float,
        nargs="?",
        const=600.0,
        metavar="SECONDS",
        help="5 seeds, then 10, then 20 while a claim is undecided and they take at most SECONDS of one core (default: 600)",
    )
    doing.add_argument(
        "--all", action="store_true", help="print every claim, not only the headline claims of a paper"
    )
    doing.add_argument(
        "--estimate", action="store_true", help="only print how long this would take, and how much memory"
    )
    doing.add_argument("--json", action="store_true", help="print one JSON object on stdout and nothing else")
    doing.add_argument("--strict", action="store_true", help="exit with 3 when a claim does not hold")
    page = add("report", "Write DIR/index.html and DIR/results.md from the results in DIR.", "report runs")
    page.add_argument("folder", type=Path, metavar="DIR", help="a folder that reproduce wrote")
    page.add_argument(
        "--publish",
        type=Path,
        metavar="FOLDER",
        help="also keep the results there, as one JSON file for each scale and small figures; seeds must be fresh",
    )
    page.add_argument(
        "--against",
        type=Path,
        metavar="OTHER",
        help="write no page, but compare the claims with those of another folder, bit for bit; exit code 3 if one differs",
    )
    page.add_argument(
        "--tolerant",
        action="store_true",
        help="with --against: the same verdicts and values within a thousandth are enough, as between processors",
    )


def _add_name(command: argparse.ArgumentParser, text: str) -> None:
    """An optional PAPER[/ITEM]."""
    command.add_argument(
        "name", nargs="?", default="all", metavar="PAPER[/ITEM]", help=f"{text} (default: all)"
    )


def _networks(add: Add) -> None:
    """The arguments of the commands."""
    bracketing = add(
        "radius",
        "Bracket the robust radius of your model on your points: proven below, attacked above.",
        "radius model.onnx data.csv --out radii",
    )
    _add_model_and_data(bracketing)
    _add_effort(bracketing)
    _add_units(bracketing)
    bracketing.add_argument(
        "--eps",
        type=float,
        metavar="EPS",
        help="ask only whether every point keeps its class within this radius (default: how far it does)",
    )
    bracketing.add_argument(
        "--report",
        action="store_true",
        help="also write report.html, one page to hand over that needs nothing else",
    )

    verifying = add(
        "verify",
        "Say whether a property of a network's outputs holds (VNN-LIB 1.0 or 2.0): a checked proof, a counterexample, or unknown.",
        "verify model.onnx property.vnnlib --seconds 60 --out answer",
    )
    verifying.add_argument(
        "model", type=Path, metavar="MODEL", help=".onnx (also .onnx.gz) or .npz: layers of ReLU"
    )
    verifying.add_argument(
        "property",
        type=Path,
        metavar="PROPERTY.vnnlib",
        help="what must not happen, as in the verification competition; also .gz",
    )
    verifying.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="CPU seconds (default: 120, or no limit beside --branches)",
    )
    _add_branches(verifying, "branches of each case")
    verifying.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where proof.npz or counterexample.txt goes (default: nowhere)",
    )
    verifying.add_argument("--json", action="store_true", help="print JSON")

    checking = add(
        "check",
        "Verify the proofs that radius wrote, without the search that found them; exit 3 when one is refused.",
        "check radii/proofs.npz model.npz data.npz --norm 2 --eps 0.3",
    )
    checking.add_argument(
        "proofs",
        type=Path,
        metavar="PROOFS.npz",
        help="as radius, verify and bracket.save write them; DATA is the .vnnlib file of verify",
    )
    _add_model_and_data(checking)
    checking.add_argument(
        "--norm",
        default="2",
        help="1, 2 or inf (l1, l2, linf): proofs about another norm are refused (default: 2)",
    )
    checking.add_argument("--eps", type=float, help="the radius in question (default: whatever is claimed)")
    checking.add_argument(
        "--bounds",
        type=float,
        nargs=2,
        metavar=("LO", "HI"),
        help="of every coordinate of a perturbed point: proofs about narrower ones are refused (default: none)",
    )
    checking.add_argument(
        "--arithmetic",
        choices=("real", "float32"),
        default="real",
        help="float32: proofs about real numbers are refused (default real)",
    )
    _add_units(checking)
    checking.add_argument("--exact", action="store_true", help="verify in exact rational arithmetic, slowly")
    checking.add_argument("--json", action="store_true", help="print JSON")

    comparing = add(
        "compare",
        "Say which points keep, lose or gain their proof from one version of a model to the next; proofs are reused first.",
        "compare old.onnx new.onnx data.npz --eps 0.1 --strict",
    )
    for name in ("old", "new"):
        comparing.add_argument(
            name, type=Path, metavar=name.upper(), help=".onnx or .npz, as radius takes it"
        )
    comparing.add_argument("data", type=Path, metavar="DATA", help=".npz with x and y, or .csv with labels")
    comparing.add_argument("--norm", default="2", choices=NORMS, help="norm (default: 2)")
    comparing.add_argument(
        "--eps", type=float, help="the radius in question (default: what is proven of OLD)"
    )
    comparing.add_argument(
        "--bounds", type=float, nargs=2, metavar=("LO", "HI"), help="of every coordinate of a perturbed point"
    )
    comparing.add_argument(
        "--seconds", type=float, metavar="S", help="CPU seconds for each model (default: 5 for each point)"
    )
    comparing.add_argument("--strict", action="store_true", help="exit with 3 when a point loses its proof")
    comparing.add_argument("--json", action="store_true", help="print JSON")
    comparing.add_argument(
        "--out",
        type=Path,
        default=Path("comparison"),
        metavar="DIR",
        help="where results go (default: comparison)",
    )

    judging = add(
        "referee",
        "Say which points of a published curve of robust accuracy are impossible for a model.",
        "referee model.npz data.npz --claims curve.csv",
    )
    _add_model_and_data(judging)
    judging.add_argument(
        "--claims",
        type=Path,
        required=True,
        metavar="CURVE.csv",
        help="the columns radius and robust_accuracy",
    )
    judging.add_argument(
        "--of",
        type=int,
        metavar="N",
        help="the claims are about N points, of which DATA is a random part (default: about the points of DATA)",
    )
    judging.add_argument("--json", action="store_true", help="print JSON")
    _add_effort(judging)
    _add_units(judging)


def _kkt(add: Add) -> None:
    """The arguments of the command."""
    audit = add(
        "kkt",
        "Audit how close your two-layer ReLU network is to a KKT point of the max-margin problem on your data.",
        "kkt net.npz data.npz",
    )
    audit.add_argument("net", type=Path, metavar="NET.npz", help="W, a, optional b, activation relu")
    audit.add_argument("data", type=Path, metavar="DATA.npz", help="x (n, d) and y (n,) in {-1, +1}")
    audit.add_argument(
        "--tolerance",
        type=float,
        default=1e-3,
        metavar="T",
        help="neurons within T ‖w‖‖x‖ of their kink may have any derivative in [0, 1] (default: 0.001)",
    )
    audit.add_argument(
        "--most-points",
        type=int,
        default=2000,
        metavar="N",
        help="solve for the exact point beside it up to N points (default: 2000)",
    )
    audit.add_argument(
        "--forget",
        type=int,
        metavar="I",
        help="take point I (from 0) out by one ascent step; how close the result is to a KKT point of the rest",
    )
    audit.add_argument(
        "--witness",
        type=Path,
        metavar="OUT.npz",
        help="write other data with the same network at a KKT point",
    )
    audit.add_argument("--json", action="store_true", help="print JSON")


def _add_model_and_data(command: argparse.ArgumentParser) -> None:
    """MODEL and DATA."""
    command.add_argument(
        "model",
        type=Path,
        metavar="MODEL",
        help=".onnx, or .npz with W, b, a (two classes) or V and c, activation (relu, prelu, polynomial, tanh), p, classes",
    )
    command.add_argument(
        "data",
        type=Path,
        metavar="DATA",
        help=".npz with x (n, d) and y (n,), or .csv with a column of labels",
    )


def _add_branches(command: argparse.ArgumentParser, limited: str) -> None:
    """--branches."""
    command.add_argument(
        "--branches", type=int, metavar="N", help=f"{limited}; repeats bit for bit, unlike seconds"
    )


def _add_units(command: argparse.ArgumentParser) -> None:
    """--unit, --reference and --fixed."""
    command.add_argument(
        "--unit",
        choices=("std",),
        help="radii in standard deviations of each feature (default: units of DATA)",
    )
    command.add_argument(
        "--reference",
        type=Path,
        metavar="DATA",
        help="data that standard deviations are taken from, as the training data (default: DATA)",
    )
    command.add_argument(
        "--fixed",
        nargs="+",
        default=[],
        metavar="FEATURE",
        help="features that do not change: names of columns, or positions from 0",
    )


def _add_effort(command: argparse.ArgumentParser) -> None:
    """--norm, --bounds, --gap, --seconds, --branches and --out."""
    command.add_argument("--norm", default="2", choices=NORMS, help="norm of perturbations (default: 2)")
    command.add_argument(
        "--bounds",
        type=float,
        nargs=2,
        metavar=("LO", "HI"),
        help="keep every coordinate of a perturbed point in [LO, HI], as pixels in [0, 1] (default: anywhere)",
    )
    command.add_argument(
        "--gap",
        type=float,
        default=0.01,
        help="relative width at which a bracket counts as closed (default: 0.01)",
    )
    command.add_argument(
        "--seconds", type=float, metavar="S", help="CPU seconds of the whole call (default: 5 for each point)"
    )
    _add_branches(command, "branches of each proof")
    command.add_argument(
        "--out", type=Path, default=Path("radii"), metavar="DIR", help="where results go (default: radii)"
    )


def _sweeps(add: Add) -> None:
    """The arguments of the commands."""
    doing = add(
        "sweep",
        "Run an item or your function over many settings and seeds; a second call goes on where the first was stopped.",
        "sweep noise.toml --out noise --workers 2",
    )
    doing.add_argument("spec", type=Path, metavar="SPEC.toml", help="what to sweep; see docs/sweeps.md")
    doing.add_argument("--out", type=Path, required=True, metavar="DIR", help="where results go")
    add_executor(doing)
    add_context(doing)

    rows = add(
        "rows",
        "Print what was measured as JSON lines or CSV, or write DIR/rows.parquet.",
        "rows noise --csv",
    )
    rows.add_argument("folder", type=Path, metavar="DIR", help="a folder that sweep or reproduce wrote")
    rows.add_argument("--item", metavar="NAME", help="which item, where the folder has several")
    form = rows.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print CSV")
    form.add_argument("--parquet", action="store_true", help="write DIR/rows.parquet")

    phase = add(
        "phase",
        "Draw a value of a sweep over two parameters: heat map, contours, slices with fitted exponents.",
        "phase noise --x alpha --y per_cluster --value distance --theory predicted_distance",
    )
    phase.add_argument("folder", type=Path, metavar="DIR", help="a folder that sweep or reproduce wrote")
    phase.add_argument("--item", metavar="NAME", help="which item, where the folder has several")
    for name, text in (
        ("x", "the parameter along x"),
        ("y", "the parameter along y"),
        ("value", "what to draw"),
    ):
        phase.add_argument(f"--{name}", required=True, metavar="COLUMN", help=text)
    phase.add_argument(
        "--theory", metavar="COLUMN", help="what the theory predicts for the value, drawn dashed"
    )
    phase.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="only these rows; may be given several times",
    )


def _explain(add: Add) -> None:
    """The arguments of the command."""
    command = add(
        "explain",
        "Say which theorem's picture fits your model, what it predicts, and what is measured.",
        "explain net.npz points.npz --out explanation",
    )
    command.add_argument(
        "model", type=Path, metavar="MODEL", help="an .onnx or .npz network, or a saved head"
    )
    command.add_argument(
        "data", type=Path, metavar="DATA", help="points and labels (.npz with x, y and optional fine; .csv)"
    )
    command.add_argument(
        "--points",
        type=int,
        default=60,
        metavar="N",
        help="points whose radius is bracketed (default: 60)",
    )
    command.add_argument(
        "--out",
        type=Path,
        default=Path("explanation"),
        metavar="DIR",
        help="where the page goes (default: explanation)",
    )


def _audit(add: Add) -> None:
    """The arguments of the command."""
    command = add(
        "audit",
        "Audit a head on your embeddings, and measure the robust heads you could have instead.",
        "audit embeddings.npz --head net.npz --out audit",
    )
    command.add_argument(
        "embeddings",
        type=Path,
        metavar="EMBEDDINGS.npz",
        help="x_train, y_train, x_test, y_test (or x, y); optional fine_train",
    )
    command.add_argument(
        "--head",
        type=Path,
        metavar="MODEL",
        help="the head you have: an .onnx or .npz network, or a saved head",
    )
    command.add_argument(
        "--seen",
        choices=("training", "all", "none"),
        help="the rows that your head was trained on (default: the training rows, where the file tells them apart)",
    )
    command.add_argument("--workers", type=int, metavar="N", help="processes (default: one for each core)")
    command.add_argument(
        "--normalise", choices=("unit", "none"), help="scale every row to norm 1, or keep rows as they are"
    )
    command.add_argument(
        "--points",
        type=int,
        metavar="N",
        help="test points that are bracketed (default: 50, 100, 200 or 400, until the decision is significant)",
    )
    command.add_argument(
        "--out", type=Path, default=Path("audit"), metavar="DIR", help="where results go (default: audit)"
    )


def _data(add: Add) -> None:
    """The arguments of both commands."""
    fetching = add(
        "fetch", "Download MNIST or CIFAR-10 into the cache, checked against their sums.", "fetch mnist"
    )
    fetching.add_argument("name", choices=IMAGES, help="what to fetch")
    embedding = add(
        "embed",
        "Compute CLIP ViT-B/32 embeddings of images (needs featureprism[clip]).",
        "embed cifar10 --out cifar10_embeddings.npz",
    )
    embedding.add_argument("name", choices=(*IMAGES, "digits"), help="whose embeddings")
    embedding.add_argument(
        "--out", type=Path, default=Path("embeddings.npz"), metavar="FILE", help="where they go (.npz)"
    )
    add_context(embedding)


def _zoo(add: Add) -> None:
    """The arguments of the command."""
    zoo = add(
        "zoo",
        "List the image networks that come with featureprism, or train one of them again.",
        "zoo --rebuild alexnet-clean --folder zoo",
    )
    zoo.add_argument(
        "--rebuild",
        metavar="NAME",
        help="train this one, or all that fit a pattern (wrn-10-1-set-*); a second call goes on from the last epoch",
    )
    zoo.add_argument(
        "--folder",
        type=Path,
        metavar="DIR",
        help="whose networks (default: those of the package); with --rebuild where they go (default: zoo)",
    )
    zoo.add_argument("--json", action="store_true", help="print the cards as JSON")
    add_context(zoo)


def _play(add: Add) -> None:
    """The arguments of the command."""
    command = add(
        "play",
        "Open the playground in the browser, on this machine alone (needs featureprism[play]).",
        "play",
    )
    command.add_argument(
        "--port",
        type=int,
        default=8765,
        metavar="N",
        help="where to listen; 0 is any free port (default: 8765)",
    )
    command.add_argument("--no-browser", action="store_true", help="only print the address")
    command.add_argument(
        "--export",
        type=Path,
        metavar="DIR",
        help="write the page with recordings instead, to be opened without a server",
    )


def add_context(command: argparse.ArgumentParser) -> None:
    """--data and --device."""
    command.add_argument(
        "--data",
        type=Path,
        metavar="PATH",
        help=f"folder with archives or .npz files, or one .npz file (default: ${DATA}, then the cache of fetch)",
    )
    command.add_argument(
        "--device",
        metavar="NAME",
        help=f"where image networks are trained: cpu, cuda, mps (default: ${DEVICE}, or cpu)",
    )


def add_executor(command: argparse.ArgumentParser) -> None:
    """--executor, --workers, --scheduler, --wait and --tolerant."""
    command.add_argument(
        "--executor", choices=("local", "dask"), default="local", help="where units run (default: local)"
    )
    command.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="how many local processes (default: one for each core; 1 runs in this process)",
    )
    command.add_argument(
        "--scheduler", metavar="ADDRESS", help="a Dask scheduler, such as tcp://10.0.0.1:8786"
    )
    command.add_argument(
        "--wait",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="how long to wait for a Dask scheduler that is gone (default: 600)",
    )
    command.add_argument(
        "--tolerant",
        action="store_true",
        help="take units measured with other versions or kinds of processors as finished: last digits may differ",
    )
