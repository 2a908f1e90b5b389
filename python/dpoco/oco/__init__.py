"""Private online convex optimisation in Euclidean geometry.

`NoisyFTRL` follows the leader on private sums; use it for linear and squared losses. `NoisyNewton`
also sums curvatures and takes Newton steps; use it for logistic and Huber losses.
`CoupledRegularizedLeader` (CTRL) tilts the sum of losses by one random linear term and keeps its
decision for many rounds; use it for smooth convex losses. `ContinuousMultiplicativeWeights`
(P-COMW) draws decisions from a Gibbs distribution of the losses and keeps them in the same way; use
it for Lipschitz losses without smoothness. `LipschitzLearner` takes Lipschitz losses in one or two
dimensions that need not be convex: it is Hedge on a net.
"""

from __future__ import annotations

from dpoco.oco._coupled import ContinuousMultiplicativeWeights, CoupledRegularizedLeader
from dpoco.oco._lipschitz import LipschitzLearner
from dpoco.oco._noisy_ftrl import EstimatedLoss, NoisyFTRL, NoisyNewton, OptionWeight

__all__ = ["ContinuousMultiplicativeWeights", "CoupledRegularizedLeader", "EstimatedLoss",
           "LipschitzLearner", "NoisyFTRL", "NoisyNewton", "OptionWeight"]  # fmt: skip
