"""compare: two versions of a model on the same points. Proofs of the old one are tried on the new weights before any search."""

import argparse
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from featureprism import __version__
from featureprism._files import as_json, prepare_folder, write_whole
from featureprism._inputs import as_points
from featureprism._points import read_points
from featureprism.brackets import RadiusBracket
from featureprism.checker.layers import Layers
from featureprism.checker.proofs import Proof, norm_word
from featureprism.checker.verify import verified_radii
from featureprism.commands.words import say
from featureprism.lab.terminal import progress_bar
from featureprism.models import Model, read_model
from featureprism.verify import Budget, Query
from featureprism.verify.api import SECONDS, statement_of
from featureprism.verify.deep.methods import renewed_certificates
from featureprism.verify.driver import bracket_points
from featureprism.verify.one_layer.certify import lipschitz_certificate, renewed
from featureprism.verify.query import as_norm

LOST = 3  # exit code with --strict
AT_LEAST = 0.95  # of the old proven radius: what counts as kept


@dataclass(frozen=True, eq=False)
class Compared:
    """Points whose proof is kept, lost or gained: what is proven of the old and of the new model at the radius in question."""

    old: RadiusBracket
    new: RadiusBracket
    carried: np.ndarray  # whether the old proof holds for the new weights, without a search
    radius: np.ndarray  # at which each point is compared

    @property
    def before(self) -> np.ndarray:
        """(n,) Whether the old model is proven at that radius."""
        return (self.old.certified >= self.radius) & (self.old.certified > 0)

    @property
    def after(self) -> np.ndarray:
        """(n,) Whether the new model is."""
        return (self.new.certified >= self.radius) & (self.new.certified > 0)

    def facts(self) -> dict[str, Any]:
        """Counts, and the points by name."""
        kept, lost, gained = self.before & self.after, self.before & ~self.after, ~self.before & self.after
        broken = lost & (self.new.attacked <= self.radius)
        return {
            "points": len(self.radius),
            "kept": int(kept.sum()),
            "kept_by_the_old_proof": int((kept & self.carried).sum()),
            "lost": np.flatnonzero(lost).tolist(),
            "lost_with_a_witness": np.flatnonzero(broken).tolist(),
            "gained": np.flatnonzero(gained).tolist(),
            "old_accuracy": float((self.old.attacked > 0).mean()),
            "new_accuracy": float((self.new.attacked > 0).mean()),
            "old_radii": self.old.certified.tolist(),
            "new_radii": self.new.certified.tolist(),
        }


def compare(args: argparse.Namespace) -> int:
    """Say which proofs are kept, lost and gained; 3 with --strict when one is lost."""
    query = Query(as_norm(args.norm), args.eps, None if args.bounds is None else tuple(args.bounds))
    points, labels = read_points(args.data)
    models = [read_model(path, probe=points).with_scores() for path in (args.old, args.new)]
    x = as_points(points)
    label = [model.indices(labels, len(x)) for model in models]
    if models[0].num_classes != models[1].num_classes or not bool((label[0] == label[1]).all()):
        raise ValueError(
            f"{args.old.name} and {args.new.name} have different classes; the same classes in the same order are wanted."
        )
    budget = Budget(SECONDS * len(x) if args.seconds is None else args.seconds)
    with progress_bar("brackets") as bar:
        old = bracket_points(
            models[0], x, label[0], query, budget, progress=lambda share: bar.within(share / 2)
        )
        result = compared(models, old, x, label[0], query, budget, lambda share: bar.within(0.5 + share / 2))
    facts = result.facts() | _evidence(args, models, x, label[0], query)
    prepare_folder(args.out)
    for name, model, bracket in zip(("old", "new"), models, (result.old, result.new), strict=True):
        replace(bracket, statement=statement_of(model, x, label[0], query)).save(
            args.out / f"{name}_proofs.npz"
        )
        facts[f"{name}_proofs_sha256"] = _sha256(args.out / f"{name}_proofs.npz")
    write_whole(args.out / "comparison.json", as_json(facts, indent=1))
    if args.json:
        print(as_json(facts, indent=1))
    else:
        say(_in_words(facts, args))
    return LOST if args.strict and facts["lost"] else 0


def compared(
    models: list[Model], old: RadiusBracket, x: Any, label: Any, query: Query, budget: Budget, progress: Any
) -> Compared:
    """The new model at the radii of the old one: by the old proofs where they hold, else by a search."""
    new, n = models[1], len(x)
    radius = np.full(n, query.eps) if query.eps is not None else AT_LEAST * old.certified
    carried = np.zeros(n, dtype=bool)
    held, proofs = np.zeros(n), []
    if new.weights is not None and _have_one_shape(*models):
        proofs = _carried_over(new, old, x, radius)
        held = verified_radii(new.weights, x.numpy(), label.numpy(), proofs, query.norm)
        carried = (held >= radius) & (held > 0)
    rest = np.flatnonzero(~carried)
    search = (
        bracket_points(new, x[rest], label[rest], query, budget, progress=progress) if len(rest) else None
    )
    certified, attacked = held.copy(), np.full(n, np.inf)
    method, certificates = ["the old proof"] * n, [{} for _ in range(n)]
    for proof in proofs:
        certificates[proof.point][proof.rival] = proof.certificate
    witness = np.zeros(x.shape)
    if search is not None:
        assert search.witness is not None
        certified[rest], attacked[rest], witness[rest] = search.certified, search.attacked, search.witness
        for k, i in enumerate(rest.tolist()):
            method[i], certificates[i] = search.method[k], search.certificates[k]
    bracket = replace(
        old,
        certified=certified,
        attacked=attacked,
        witness=witness,
        method=tuple(method),
        certificates=tuple(certificates),
        stopped_because=(),
    )
    return Compared(old, bracket, carried, radius)


def _have_one_shape(old: Model, new: Model) -> bool:
    """Whether proofs of one can be written for the other."""
    if type(new.weights) is not type(old.weights) or new.dim != old.dim:
        return False
    if isinstance(new.weights, Layers) and isinstance(old.weights, Layers):
        return new.weights.widths == old.weights.widths
    return True


def _carried_over(new: Model, old: RadiusBracket, x: Any, radius: np.ndarray) -> list[Proof]:
    """The proofs of the old model for the new weights: cuts and multipliers stay, bounds of neurons and norms are those of the new."""
    if isinstance(new.weights, Layers):
        found = []
        for i in range(len(x)):
            proofs = {proof.rival: proof for proof in old.proofs() if proof.point == i}
            if not proofs or not radius[i] > 0:
                continue
            claims = {target: proof.certificate for target, proof in proofs.items()}
            own = next(iter(proofs.values())).own
            renewals = renewed_certificates(claims, new.weights, x[i].numpy(), own, float(radius[i]))
            found += [replace(proofs[target], certificate=claim) for target, claim in renewals.items()]
        return found
    form, found = new.one_layer, []
    for proof in old.proofs():
        if form is not None and proof.certificate.kind in ("cells", "lines", "crown", "ellipsoid"):
            pair = form.of_pair(proof.own, proof.rival)
            proof = replace(proof, certificate=renewed(proof.certificate, pair, x[proof.point], pair.sign))
        elif form is not None and proof.certificate.kind == "lipschitz":
            pair, bound = form.of_pair(proof.own, proof.rival), proof.certificate.radius
            proof = replace(proof, certificate=lipschitz_certificate(pair, x[proof.point], pair.sign, bound))
        if proof.certificate.radius > 0:
            found.append(proof)
    return found


def _evidence(
    args: argparse.Namespace, models: list[Model], x: Any, label: Any, query: Query
) -> dict[str, Any]:
    statement = statement_of(models[0], x, label, query)
    return {
        "norm": norm_word(query.norm),
        "eps": query.eps,
        "bounds": None if query.bounds is None else list(query.bounds),
        "featureprism": __version__,
        "old": {"file": args.old.name, "file_sha256": _sha256(args.old), "weights_sha256": models[0].sha256},
        "new": {"file": args.new.name, "file_sha256": _sha256(args.new), "weights_sha256": models[1].sha256},
        "data": {
            "file": args.data.name,
            "file_sha256": _sha256(args.data),
            "points_sha256": statement.points_sha256,
        },
    }


def _in_words(facts: dict[str, Any], args: argparse.Namespace) -> str:
    at = f"within {args.eps:g}" if args.eps is not None else "as far as before (to 5 %)"
    lines = [
        f"{facts['kept']} of {facts['points']} points keep their proof {at}, "
        f"{facts['kept_by_the_old_proof']} of them by the old proof alone; "
        f"{len(facts['lost'])} lose it, {len(facts['gained'])} gain one.",
        f"Accuracy {facts['old_accuracy']:.1%} before, {facts['new_accuracy']:.1%} now.",
    ]
    if facts["lost"]:
        shown = ", ".join(map(str, facts["lost"][:10])) + (" …" if len(facts["lost"]) > 10 else "")
        lines.append(
            f"Lost: points {shown}; {len(facts['lost_with_a_witness'])} of them are broken by a perturbation that was found."
        )
    return "\n".join([*lines, f"comparison.json and the proofs of both are in {args.out}"])


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
