"""Private online Frank-Wolfe learners (Han et al.).

`TreeFrankWolfe` (DP-TOFW) uses a private sum of gradients, on l_p balls, boxes, simplices and
polytopes. `PolyhedralFrankWolfe` (DP-POFW) selects vertices privately, on l_1 balls, simplices,
boxes and lists of vertices in many dimensions.

Baselines that fit one model to a data set at once, without a stream: `NoisyFrankWolfe`, `NoisySGD`,
`PhasedSGD`, `LocalizedMirrorDescent` and, for squared losses, `SufficientStatistics`.
"""

from __future__ import annotations

from dpoco.accounting.localized_mirror_descent import LocalizedMirrorDescentParameters
from dpoco.accounting.noisy_frank_wolfe import NoisyFrankWolfeParameters
from dpoco.accounting.noisy_sgd import NoisySGDParameters
from dpoco.accounting.phased_sgd import PhasedSGDParameters
from dpoco.accounting.polyhedral_frank_wolfe import PolyhedralFrankWolfeParameters
from dpoco.accounting.sufficient_statistics import SufficientStatisticsParameters
from dpoco.accounting.tree_frank_wolfe import TreeFrankWolfeParameters
from dpoco.frank_wolfe._batch_fits import (
    LocalizedMirrorDescent,
    NoisyFrankWolfe,
    NoisySGD,
    PhasedSGD,
    SufficientStatistics,
)
from dpoco.frank_wolfe._online import PolyhedralFrankWolfe, TreeFrankWolfe, model_settings

__all__ = ["LocalizedMirrorDescent", "LocalizedMirrorDescentParameters",
           "NoisyFrankWolfe", "NoisyFrankWolfeParameters", "NoisySGD",
           "NoisySGDParameters", "PhasedSGD", "PhasedSGDParameters",
           "PolyhedralFrankWolfe", "PolyhedralFrankWolfeParameters",
           "SufficientStatistics", "SufficientStatisticsParameters", "TreeFrankWolfe",
           "TreeFrankWolfeParameters", "model_settings"]  # fmt: skip
