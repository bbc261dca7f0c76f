"""Tables, figures, pages; the only place that draws."""

from featureprism.report.figures import save_curve, save_figure
from featureprism.report.page import write_report
from featureprism.report.terminal import claims_table, kkt_table, progress_bar

__all__ = ["claims_table", "kkt_table", "progress_bar", "save_curve", "save_figure", "write_report"]
