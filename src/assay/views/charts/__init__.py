"""Charts: plain documents of the contract in, `Chart` out. One file for each family: grades,
steps, summaries, criteria, trends, decisions, exams, judges.
"""

from assay.views.charts.chart import DARK, PALETTE, THEME, Chart

__all__ = ["DARK", "PALETTE", "THEME", "Chart"]
