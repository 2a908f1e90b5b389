"""Private online Frank-Wolfe learners (Han et al.).

`TreeFrankWolfe` (DP-TOFW) uses a private sum of gradients, on l_p balls, boxes, simplices and
polytopes. `PolyhedralFrankWolfe` (DP-POFW) selects vertices privately, on l_1 balls, simplices,
boxes and lists of vertices in many dimensions.

`SufficientStatistics` fits one model to a whole data set at once, without a stream, for squared
losses.
"""

from __future__ import annotations

from dpoco.frank_wolfe._online import PolyhedralFrankWolfe, TreeFrankWolfe
from dpoco.frank_wolfe._sufficient_statistics import SufficientStatistics

__all__ = ["PolyhedralFrankWolfe", "SufficientStatistics",
           "TreeFrankWolfe"]  # fmt: skip
