"""Drawings and pages of audits, brackets and explanations, and drawings of papers that do not draw themselves yet."""

from featureprism.lab.page import write_report
from featureprism.lab.terminal import duration, progress_bar
from featureprism.report.brackets import save_curve
from featureprism.report.figures import save_figure
from featureprism.report.terminal import kkt_table, rulings_table

__all__ = [
    "duration",
    "kkt_table",
    "progress_bar",
    "rulings_table",
    "save_curve",
    "save_figure",
    "write_report",
]
