"""Figures of runs: average loss and regret over time. Not private: they show raw losses.

Every function takes ``ax=`` and returns what it drew on; none shows, saves or keeps anything, and
matplotlib (extra ``plot``) is imported on use. Colours are those of Okabe and Ito, told apart by
all forms of colour vision, and every line also has a style of its own.
"""

from __future__ import annotations

from dpoco.plotting._audit import plot_audit
from dpoco.plotting._reproduce import plot_figure_5_1, plot_table_5_1
from dpoco.plotting._runs import plot_loss, plot_regret, plot_regret_per_round, plot_run_report
from dpoco.plotting._sequences import plot_decisions, plot_dynamic_regret

__all__ = [
    "plot_audit",
    "plot_decisions",
    "plot_dynamic_regret",
    "plot_figure_5_1",
    "plot_loss",
    "plot_regret",
    "plot_regret_per_round",
    "plot_run_report",
    "plot_table_5_1",
]
