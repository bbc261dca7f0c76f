"""The kernel of experiments: rows, claims as data, verdicts."""

from featureprism.lab.bounds import Bound, above, at_least, at_most, below, between
from featureprism.lab.claim import Claim
from featureprism.lab.experiment import SCALES, Experiment, Measure, Paper, changed, fields_of
from featureprism.lab.intervals import mean_interval, share_interval
from featureprism.lab.premise import Premise, Regime, Requires, requires
from featureprism.lab.rate import Rate, rate
from featureprism.lab.rows import Row, Rows, Values, log_slope
from featureprism.lab.verdict import Outcome, Verdict, judge

__all__ = [
    "SCALES",
    "Bound",
    "Claim",
    "Experiment",
    "Measure",
    "Outcome",
    "Paper",
    "Premise",
    "Rate",
    "Regime",
    "Requires",
    "Row",
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
    "rate",
    "requires",
    "share_interval",
]
