"""The kernel of experiments: rows, claims as data, verdicts."""

from featureprism.lab.bounds import Bound, above, at_least, at_most, below, between
from featureprism.lab.claim import Claim, Regime, Requires, requires
from featureprism.lab.experiment import SCALES, Experiment, Measure, Paper, changed, fields_of
from featureprism.lab.rows import Rows, Values, log_slope
from featureprism.lab.verdict import Outcome, Verdict, judge, mean_interval

__all__ = [
    "SCALES",
    "Bound",
    "Claim",
    "Experiment",
    "Measure",
    "Outcome",
    "Paper",
    "Regime",
    "Requires",
    "Rows",
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
    "requires",
]
