"""Published experiments, rerun at the budget they state and with their true cost.

`table_5_1` is the comparison in l_p geometry of Han et al., "On Private Online Convex Optimization:
Optimal Algorithms in l_p-Geometry and High Dimensional Contextual Bandits"; `figure_5_1` is its
comparison of private bandits, `figure_5_2` and `figure_5_3` are its training curves. `comparisons`
has the tables of rates of all papers as numbers. Findings: ``docs/reproduce.md``. The package
is not part of the library, because two of its programs repeat published algorithms without privacy.

From the top of a checkout: python -m bench.reproduce table-5.1 --quick
"""

from __future__ import annotations

from bench.reproduce.cell import (
    BaselineRow,
    LearningHorizon,
    Outcome,
    PrintedCell,
    printed_table_5_1,
)
from bench.reproduce.figure import Figure51, RegretCurve, figure_5_1
from bench.reproduce.table import Table51, TableRow, format_markdown, table_5_1
from bench.reproduce.training import Training, TrainingCurve, figure_5_2, figure_5_3
from bench.reproduce.verdict import Verdict

__all__ = ["BaselineRow", "Figure51", "LearningHorizon", "Outcome", "PrintedCell",
           "RegretCurve",
           "Table51", "TableRow", "Training", "TrainingCurve", "Verdict", "figure_5_1",
           "figure_5_2", "figure_5_3", "format_markdown", "printed_table_5_1",
           "table_5_1"]  # fmt: skip
