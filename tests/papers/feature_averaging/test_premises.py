"""A claim of a theorem lists the theorem's premises."""

import re

from featureprism.papers.feature_averaging import PAPER
from featureprism.papers.feature_averaging.setting import APPENDIX_A, ASSUMPTIONS

PREMISES = {  # what a claim rests on, by the beginning of its source
    r"Theorems? 4\.[56]|Section 4\.1": (*ASSUMPTIONS, "theorem-4-5"),
    r"Theorem 4\.7": (*ASSUMPTIONS, "theorem-4-7"),
    r"Lemma (5\.|B\.[2-9])|Section 5": (*ASSUMPTIONS, "theorem-4-5", *APPENDIX_A),
    r"Lemma B\.1$": (*ASSUMPTIONS, "proposition-a-6", "proposition-a-10", "lemma-a-13"),
}


def test_a_claim_of_a_theorem_lists_its_premises():
    """Inside its premises a claim must not be because some were left out."""
    spoken = [(e, c) for e in PAPER.experiments for c in e.claims if c.origin == "paper"]
    named = 0
    for experiment, claim in spoken:
        for source, premises in PREMISES.items():
            if re.search(source, claim.source):
                assert set(premises) <= set(claim.premises.ids), experiment.claim_id(claim)
                named += 1
    assert named >= 20
