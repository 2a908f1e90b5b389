"""Privacy accounting: parameters to guarantee, and budget to parameters.

Pure functions of public quantities; nothing here draws a random number. One module per proof, whose
docstring states the claim and where it is proved.
"""

from __future__ import annotations

from dpoco.accounting import (
    blt,
    continual_sum,
    events,
    gaussian,
    generalized_gaussian,
    published,
    rdp,
    release,
    sum_release,
    tables,
    tree_frank_wolfe,
    truncation,
    zcdp,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.sum_release import ContinualSumParameters
from dpoco.accounting.tree_frank_wolfe import TreeFrankWolfeParameters

__all__ = [
    "Budget",
    "ContinualSumParameters",
    "Guarantee",
    "TreeFrankWolfeParameters",
    "blt",
    "continual_sum",
    "events",
    "gaussian",
    "generalized_gaussian",
    "published",
    "rdp",
    "release",
    "sum_release",
    "tables",
    "tree_frank_wolfe",
    "truncation",
    "zcdp",
]
