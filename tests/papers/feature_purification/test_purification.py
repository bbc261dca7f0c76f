"""The main battery at a small size."""

from featureprism.papers.feature_purification.purification import PURIFICATION
from papers.feature_purification.sizes import BATTERY, small

TINY = small(PURIFICATION, BATTERY)


def test_at_most_seven_claims_of_the_paper_are_its_headlines():
    from featureprism.papers.feature_purification import PAPER

    assert 1 <= sum(claim.headline for item in PAPER.experiments for claim in item.claims) <= 7
