"""Private online Frank-Wolfe learners (Han et al.).

`TreeFrankWolfe` (DP-TOFW) follows a private sum of gradients: l_p balls, boxes, simplices and
polytopes. `PolyhedralFrankWolfe` (DP-POFW) selects vertices privately: l_1 balls, simplices, boxes
and lists of vertices in many dimensions.

Baselines that are not streams, but fit one model to a data set at once: `NoisyFrankWolfe`,
`NoisySGD`, `PhasedSGD` and `LocalizedMirrorDescent`.
"""

from __future__ import annotations

from dpoco.frank_wolfe._batch_descent import (
    LocalizedMirrorDescent,
    LocalizedMirrorDescentParameters,
    NoisySGD,
    NoisySGDParameters,
    PhasedSGD,
    PhasedSGDParameters,
)
from dpoco.frank_wolfe._batch_frank_wolfe import NoisyFrankWolfe, NoisyFrankWolfeParameters
from dpoco.frank_wolfe._polyhedral import PolyhedralFrankWolfe, PolyhedralFrankWolfeParameters
from dpoco.frank_wolfe._tree import TreeFrankWolfe, TreeFrankWolfeParameters

__all__ = [
    "LocalizedMirrorDescent",
    "LocalizedMirrorDescentParameters",
    "NoisyFrankWolfe",
    "NoisyFrankWolfeParameters",
    "NoisySGD",
    "NoisySGDParameters",
    "PhasedSGD",
    "PhasedSGDParameters",
    "PolyhedralFrankWolfe",
    "PolyhedralFrankWolfeParameters",
    "TreeFrankWolfe",
    "TreeFrankWolfeParameters",
]
