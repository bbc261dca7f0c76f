"""Findings of featureprism that no paper has, measured like the papers' own.

No paper prints their sizes; those of the paper scale are the largest whose grids cost minutes a seed.
"""

from pathlib import Path

from featureprism.lab import Paper
from featureprism.papers.beyond.blind_attacks import BLIND_ATTACKS
from featureprism.papers.beyond.contest import CONTEST
from featureprism.papers.beyond.phase_cosine import PHASE_COSINE
from featureprism.papers.beyond.phase_learning_rate import PHASE_LEARNING_RATE
from featureprism.papers.beyond.phase_supervision import PHASE_SUPERVISION

PAPER = Paper(
    "beyond",
    str(__doc__),
    (
        BLIND_ATTACKS,
        PHASE_COSINE,
        PHASE_SUPERVISION,
        PHASE_LEARNING_RATE,
        CONTEST,
    ),
    story=Path(__file__).with_name("story.md"),
)
