"""Privacy accounting: parameters to guarantee, and budget to parameters.

Pure functions of public quantities; nothing here draws a random number. One module per proof, whose
docstring states the claim and where it is proved.
"""

from __future__ import annotations

from dpoco.accounting import (
    blt,
    continual_sum,
    continuous_multiplicative_weights,
    coupled_regularized_leader,
    coupling,
    euclidean,
    events,
    gaussian,
    generalized_gaussian,
    gibbs_draws,
    lazy_oco,
    objective_perturbation,
    oco_published,
    published,
    pure,
    rdp,
    regret_bounds,
    release,
    sum_release,
    tables,
    tree_frank_wolfe,
    truncation,
    zcdp,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.continuous_multiplicative_weights import (
    ContinuousMultiplicativeWeightsParameters,
)
from dpoco.accounting.coupled_regularized_leader import CoupledRegularizedLeaderParameters
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.sum_release import ContinualSumParameters
from dpoco.accounting.tree_frank_wolfe import TreeFrankWolfeParameters

__all__ = [
    "Budget",
    "ContinualSumParameters",
    "ContinuousMultiplicativeWeightsParameters",
    "CoupledRegularizedLeaderParameters",
    "Guarantee",
    "TreeFrankWolfeParameters",
    "blt",
    "continual_sum",
    "continuous_multiplicative_weights",
    "coupled_regularized_leader",
    "coupling",
    "euclidean",
    "events",
    "gaussian",
    "generalized_gaussian",
    "gibbs_draws",
    "lazy_oco",
    "objective_perturbation",
    "oco_published",
    "published",
    "pure",
    "rdp",
    "regret_bounds",
    "release",
    "sum_release",
    "tables",
    "tree_frank_wolfe",
    "truncation",
    "zcdp",
]
