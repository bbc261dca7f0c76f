"""The kernel of experiments: rows, claims as data, verdicts."""

from featureprism.experiment.bounds import Bound, above, at_least, at_most, below, between
from featureprism.experiment.claim import Claim, Regime, Under, under
from featureprism.experiment.experiment import SCALES, Experiment, Measure, Paper, changed, fields_of
from featureprism.experiment.rows import Rows, Values, log_slope
from featureprism.experiment.verdict import Outcome, Verdict, judge, mean_interval

__all__ = [
    "SCALES",
    "Bound",
    "Claim",
    "Experiment",
    "Measure",
    "Outcome",
    "Paper",
    "Regime",
    "Rows",
    "Under",
    "Values",
    "Verdict",
    "above",
    "at_least",
    "at_most",
    "below",
    "between",
    "changed",
    "fields_of",
    "judge",
    "log_slope",
    "mean_interval",
    "under",
]
