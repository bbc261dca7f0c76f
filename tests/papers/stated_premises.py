"""Which premises a claim must list: all groups that the theorem in its source rests on and that the item measures."""

import re

GMM_FLOW = ("theorem-1", "assumption-2", "lemma-4")
KKT_POINTS = ("assumption-2-2", "theorem-3-1")
AVERAGING = ("assumption-3-2", "assumption-3-3", "assumption-4-3")
RESTS_ON = {  # beside the group that has the theorem's own name
    "gmm-flow": {
        **dict.fromkeys(("theorem-1", "corollary-1", "proposition-4"), GMM_FLOW),
        **dict.fromkeys(("lemma-6", "lemma-7"), GMM_FLOW[1:]),
    },
    "double-edged": {
        **dict.fromkeys(("theorem-3-1", "theorem-4-2"), KKT_POINTS),
        "theorem-4-1": KKT_POINTS[:1],
        **{
            f"lemma-{name}": (*KKT_POINTS[:1], "proposition-a-1")
            for name in ("a-10", "a-11", "a-12", "d-2", "d-3", "d-4")
        },
    },
    "feature-amplification": {
        **dict.fromkeys(("theorem-3-1", "proposition-3-2", "lemma-4-3"), ("assumption",)),
        **dict.fromkeys(
            ("lemma-4-4", "lemma-4-9", "lemma-4-10", "lemma-4-11"), ("assumption", "lemma-4-1", "lemma-4-3")
        ),
    },
    "feature-averaging": {
        **dict.fromkeys(("theorem-4-6", "lemma-5-3"), (*AVERAGING, "theorem-4-5")),
        **dict.fromkeys(("theorem-4-5", "theorem-4-7"), AVERAGING),
    },
}
NOT_ASKED = {  # and why not
}
_NUMBER = r"(?:[A-Z]\.)?\d+(?:\.\d+)*(?:\([^)]*\))?"
_NAMED = re.compile(rf"(Theorem|Corollary|Lemma|Proposition)s? ({_NUMBER}(?:(?:,| and) {_NUMBER})*)")


def statements_named(source):
    """ "Theorems 5.1(c) and 5.3(b)": theorem-5-1 and theorem-5-3."""
    return [
        f"{kind}-{re.sub(r'[(].*', '', number).replace('.', '-')}".lower()
        for kind, numbers in _NAMED.findall(source)
        for number in re.split(r",? and |, ", numbers)
    ]


def left_out(experiment, rows):
    """Premises that claims of the paper should list and do not, as "claim: premise"."""
    rests_on = RESTS_ON.get(experiment.paper, {})
    found = []
    for claim in experiment.claims:
        named = statements_named(claim.source) if claim.origin == "paper" else []
        groups = {
            group for name in named for group in (name, *rests_on.get(name, ())) if _is_needed(name, group)
        }
        measured = rows.of("premise", **claim.premises.fields).distinct("id")
        spared = NOT_ASKED.get(f"{experiment.id}.{claim.name}")
        missing = [
            id for id in measured if id.partition(".")[0] in groups and id != spared and not _lists(claim, id)
        ]
        found += [f"{claim.name}: {id}" for id in missing]
    return found


def _is_needed(name, group):
    """The group of a lemma's own name is what the lemma asserts, and a premise of others alone."""
    return group != name or name.startswith("theorem")


def _lists(claim, id):
    return any(id == own or id.startswith(f"{own}.") for own in claim.premises.ids)
