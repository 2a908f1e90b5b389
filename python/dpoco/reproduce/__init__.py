"""Published experiments, rerun at the budget they state and with their true cost.

`table_5_1` is the comparison in l_p geometry of Han et al., "On Private Online Convex Optimization:
Optimal Algorithms in l_p-Geometry and High Dimensional Contextual Bandits"; `figure_5_1` is its
comparison of private bandits. Findings: ``docs/reproduce.md``. `PublishedDistributionLearner` has
the published algorithms for learning from locally private reports.
"""

from __future__ import annotations

from dpoco.reproduce._cell import (
    BaselineRow,
    LearningHorizon,
    Outcome,
    PrintedCell,
    printed_table_5_1,
)
from dpoco.reproduce._figure import Figure51, RegretCurve, figure_5_1
from dpoco.reproduce._local_learner import PublishedChannel, PublishedDistributionLearner
from dpoco.reproduce._table import Table51, TableRow, format_markdown, table_5_1
from dpoco.reproduce._verdict import Verdict

__all__ = ["BaselineRow", "Figure51", "LearningHorizon", "Outcome", "PrintedCell",
           "PublishedChannel", "PublishedDistributionLearner", "RegretCurve",
           "Table51", "TableRow", "Verdict", "figure_5_1", "format_markdown",
           "printed_table_5_1", "table_5_1"]  # fmt: skip
