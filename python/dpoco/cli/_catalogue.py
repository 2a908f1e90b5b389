"""The learners that commands know by name."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One learner.

    Attributes
    ----------
    name : str
        How commands call it.
    path : str
        Module and class below ``dpoco``.
    family : {"records", "surface", "experts", "arms", "batch", "reports"}
        What it learns from, which decides the options of its plan.
    about : str
        One line.
    """

    name: str
    path: str
    family: str
    about: str

    def load(self) -> Any:
        """Return the class, which is imported only now."""
        module, _, name = self.path.rpartition(".")
        return getattr(importlib.import_module(f"dpoco.{module}"), name)


_ENTRIES = (
    Entry(
        "tree-frank-wolfe", "frank_wolfe.TreeFrankWolfe", "records",
        "online Frank-Wolfe on privately summed gradients (DP-TOFW), l_p geometry",
    ),
    Entry(
        "polyhedral-frank-wolfe", "frank_wolfe.PolyhedralFrankWolfe", "records",
        "online Frank-Wolfe by private choice of vertices (DP-POFW), many dimensions",
    ),
    Entry(
        "noisy-ftrl", "oco.NoisyFTRL", "records",
        "follow the regularized leader on privately summed gradients (DP-FTRL)",
    ),
    Entry(
        "ctrl", "oco.CoupledRegularizedLeader", "records",
        "coupled regularized leader (CTRL), smooth convex losses, few switches",
    ),
    Entry(
        "comw", "oco.ContinuousMultiplicativeWeights", "records",
        "continuous multiplicative weights (P-COMW), any convex Lipschitz losses",
    ),
    Entry(
        "lipschitz", "oco.LipschitzLearner", "surface",
        "Lipschitz losses, not necessarily convex, in one or two dimensions",
    ),
    Entry(
        "prefix-hedge", "experts.PrefixHedge", "experts",
        "Hedge on private prefix sums, against one expert",
    ),
    Entry(
        "epoch-selector", "experts.EpochSelector", "experts",
        "a private choice at the end of doubling epochs, stationary losses",
    ),
    Entry(
        "shift-detector", "experts.ShiftDetector", "experts",
        "restarts on private alarms, losses of a law that shifts",
    ),
    Entry(
        "oblivious-tracker", "experts.ObliviousTracker", "experts",
        "tracks sequences of experts, losses fixed in advance",
    ),
    Entry(
        "batch-share", "experts.BatchShare", "experts",
        "noisy batched share, also against losses that react",
    ),
    Entry(
        "linucb", "bandits.LinUCB", "arms",
        "contextual linear bandit (DP-LinUCB), a few dimensions",
    ),
    Entry(
        "high-dimensional-bandit", "bandits.HighDimensionalBandit", "arms",
        "contextual bandit with sparse coefficients (DP-HDB), many dimensions",
    ),
    Entry(
        "noisy-frank-wolfe", "frank_wolfe.NoisyFrankWolfe", "batch",
        "batch baseline: variance-reduced noisy Frank-Wolfe, one fit",
    ),
    Entry(
        "noisy-sgd", "frank_wolfe.NoisySGD", "batch",
        "batch baseline: noisy stochastic gradients with replacement, one fit",
    ),
    Entry(
        "localized-mirror-descent", "frank_wolfe.LocalizedMirrorDescent", "batch",
        "batch baseline: mirror descent in shrinking phases, one fit",
    ),
    Entry(
        "phased-sgd", "frank_wolfe.PhasedSGD", "batch",
        "batch baseline: one pass of stochastic gradients in phases, one fit",
    ),
    Entry(
        "distribution-learner", "local.DistributionLearner", "reports",
        "which of K distributions is true, from locally private reports",
    ),
)  # fmt: skip

LEARNERS = {entry.name: entry for entry in _ENTRIES}
_ALSO = {
    "coupled-regularized-leader": "ctrl",
    "continuous-multiplicative-weights": "comw",
    "lipschitz-learner": "lipschitz",
    **{entry.path.rpartition(".")[2]: entry.name for entry in _ENTRIES},
}


def named(what: str, given: str, known: Collection[str]) -> str:
    """Return `given` if it is known; otherwise raise, naming what was probably meant."""
    if given in known:
        return given
    close = difflib.get_close_matches(given.lower(), known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"it is one of: {', '.join(known)}"
    raise ValueError(f"no {what} {given!r}; {hint}")


def entry_of(name: str, families: Collection[str] | None = None) -> Entry:
    """Return the learner of that name (or class name), of one of the families."""
    name = _ALSO.get(name, name)
    known = [e.name for e in _ENTRIES if families is None or e.family in families]
    if name in LEARNERS and name not in known:
        raise ValueError(f"{name} is not for this; it is one of: {', '.join(known)}")
    return LEARNERS[named("learner", name, known)]
