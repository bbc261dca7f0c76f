"""Tables, figures, pages; the only place that draws."""

from featureprism.report.brackets import save_curve
from featureprism.report.figures import save_figure
from featureprism.report.page import write_report
from featureprism.report.terminal import (
    claims_table,
    duration,
    estimates_table,
    kkt_table,
    progress_bar,
    rulings_table,
)

__all__ = [
    "claims_table",
    "duration",
    "estimates_table",
    "kkt_table",
    "progress_bar",
    "rulings_table",
    "save_curve",
    "save_figure",
    "write_report",
]
