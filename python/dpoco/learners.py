"""The table of learners and mechanisms, with one line for each.

It has names and paths only: a class is imported on demand, and importing this module imports no
learner. Facts about a learner's noise are on its class and not here. A derived class has the entry
of its base, except in state files, which only name the library's own classes.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from dpoco._validation import unknown

__all__ = ["LEARNERS", "MONITORS", "Learner", "find_learner", "learner_named", "own_class", "plays"]


@dataclass(frozen=True)
class Learner:
    """The entry of a learner or mechanism of the library.

    Attributes
    ----------
    name : str
        Name in commands and audits.
    path : str
        Room and class below ``dpoco``.
    plays : str
        Its kind of rounds: "records" (vectors, maybe with labels), "surface" (functions on a net),
        "experts" (losses of experts), "arms" (contexts and rewards), "batch" (one data set),
        "reports" and "pairs" (locally private reports), "sums" (vectors), "scores" (of candidates),
        "queries" (numbers) or "intervals" (any number of records each). The kind decides commands,
        journals and checks.
    about : str
        Description in one line.
    ball : float or None
        Exponent p of the ball of coefficients of its linear models; None if it learns none.
    endless : bool
        Whether it can be planned for endless streams, with ``horizon=None`` and nothing more.
    """

    name: str
    path: str
    plays: str
    about: str
    ball: float | None = None
    endless: bool = False

    @property
    def class_name(self) -> str:
        """Name of the class."""
        return self.path.rpartition(".")[2]

    @property
    def snake_name(self) -> str:
        """Name of the class with underscores."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.class_name).lower()

    def load(self) -> Any:
        """Return the class, importing it on first use."""
        return _load("dpoco", self.path)


def _load(package: str, path: str) -> Any:
    """Return the class of a path, importing its module."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"{package}.{module}"), name)


# Commands and messages list them in this order.
LEARNERS = (
    Learner(
        "tree-frank-wolfe", "frank_wolfe.TreeFrankWolfe", "records",
        "online Frank-Wolfe on privately summed gradients (DP-TOFW), l_p geometry",
        ball=2.0, endless=True,
    ),
    Learner(
        "polyhedral-frank-wolfe", "frank_wolfe.PolyhedralFrankWolfe", "records",
        "online Frank-Wolfe by private choice of vertices (DP-POFW), many dimensions",
        ball=1.0,
    ),
    Learner(
        "noisy-ftrl", "oco.NoisyFTRL", "records",
        "follow the regularized leader on privately summed gradients (DP-FTRL)",
        ball=2.0, endless=True,
    ),
    Learner(
        "noisy-newton", "oco.NoisyNewton", "records",
        "Newton steps on privately summed gradients and curvatures, logistic and Huber losses",
        ball=2.0, endless=True,
    ),
    Learner(
        "ctrl", "oco.CoupledRegularizedLeader", "records",
        "coupled regularized leader (CTRL), smooth convex losses, few switches",
        ball=2.0,
    ),
    Learner(
        "comw", "oco.ContinuousMultiplicativeWeights", "records",
        "continuous multiplicative weights (P-COMW), any convex Lipschitz losses",
    ),
    Learner(
        "lipschitz", "oco.LipschitzLearner", "surface",
        "Lipschitz losses, not necessarily convex, in one or two dimensions",
    ),
    Learner(
        "prefix-hedge", "experts.PrefixHedge", "experts",
        "Hedge on private prefix sums, against one expert",
    ),
    Learner(
        "epoch-selector", "experts.EpochSelector", "experts",
        "a private choice at the end of doubling epochs, stationary losses",
        endless=True,
    ),
    Learner(
        "window-selector", "experts.WindowSelector", "experts",
        "a private choice at the end of windows of bounded length, losses of a law that shifts",
        endless=True,
    ),
    Learner(
        "shift-detector", "experts.ShiftDetector", "experts",
        "restarts on private alarms, losses of a law that shifts",
        endless=True,
    ),
    Learner(
        "oblivious-tracker", "experts.ObliviousTracker", "experts",
        "tracks sequences of experts, losses fixed in advance",
    ),
    Learner(
        "batch-share", "experts.BatchShare", "experts",
        "noisy batched share, also against losses that react",
    ),
    Learner(
        "residual-phases", "bandits.ResidualPhases", "arms",
        "contextual linear bandit on clipped residuals, continuous and stochastic contexts",
    ),
    Learner(
        "linucb", "bandits.LinUCB", "arms",
        "contextual linear bandit (DP-LinUCB), a few dimensions",
    ),
    Learner(
        "high-dimensional-bandit", "bandits.HighDimensionalBandit", "arms",
        "contextual bandit with sparse coefficients (DP-HDB), many dimensions",
    ),
    Learner(
        "sufficient-statistics", "frank_wolfe.SufficientStatistics", "batch",
        "ridge regression on second moments released once, squared loss, no stream",
    ),
    Learner(
        "continual-sum", "mechanisms.ContinualSum", "sums",
        "running sums of vectors, each with noise",
        endless=True,
    ),
    Learner(
        "noisy-max", "mechanisms.NoisyMax", "scores",
        "the candidate of the largest noisy score, query by query",
    ),
    Learner(
        "above-threshold", "mechanisms.AboveThreshold", "queries",
        "which queries exceed a threshold, until the alarms are used up",
    ),
    Learner(
        "distribution-learner", "local.DistributionLearner", "reports",
        "which of K distributions is true, from locally private reports",
    ),
    Learner(
        "local-hypothesis-selector", "local.LocalHypothesisSelector", "pairs",
        "which of K distributions is true, from one locally private report a user",
    ),
)  # fmt: skip

# These objects have states but are not learners, because they do not publish exactly one answer per
# record.
MONITORS = (
    Learner(
        "monitor", "statistics.Monitor", "intervals",
        "statistics of a stream, interval by interval: counts, means, histograms, quantiles",
        endless=True,
    ),
    Learner(
        "range-finder", "ranges.RangeFinder", "ranges",
        "ranges of columns, from the first records of a stream",
    ),
)  # fmt: skip

_BY_CLASS = {learner.class_name: learner for learner in (*LEARNERS, *MONITORS)}


def own_class(kind: type) -> Learner | None:
    """Return the learner whose class is exactly this one, or None."""
    # The package is also compared, because a user's class may have the name of a library class.
    found = _BY_CLASS.get(kind.__name__)
    room = kind.__module__.split(".")[:2]
    return found if found is not None and room == ["dpoco", found.path.split(".")[0]] else None


def find_learner(kind: type) -> Learner | None:
    """Return the learner whose class is this one or a base of it, or None."""
    # The search follows the order of the bases, so the nearest entry is found first.
    return next(filter(None, map(own_class, kind.__mro__)), None)


def plays(learner: Any) -> str:
    """Return a learner's kind of rounds, from its entry; "" for a foreign learner."""
    known = find_learner(type(learner))
    return "" if known is None else known.plays


def learner_named(name: str, plays: Collection[str] | None = None) -> Learner:
    """Return the learner with a name or class name, ignoring hyphens and case.

    Monitors are found only if `plays` has "intervals".

    Raises
    ------
    ValueError
        If there is none, or if its kind of rounds is not in `plays`.
    """
    listed = (*LEARNERS, *MONITORS) if plays is not None and "intervals" in plays else LEARNERS
    known = [each.name for each in listed if plays is None or each.plays in plays]
    # People write either the name in commands or that of the class.
    wanted = _plain(name)
    for learner in listed:
        if wanted in map(_plain, (learner.name, learner.class_name)):
            if learner.name not in known:
                raise ValueError(f"{name} is not for this; it is one of: {', '.join(known)}")
            return learner
    raise ValueError(unknown("learner", name, known))


def _plain(name: str) -> str:
    """Return a name in the form for comparisons: without hyphens and case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
