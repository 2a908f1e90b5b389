"""What a learner knows: posterior, confidence sets, information, bounds on its risk."""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import positive_int, real_float
from dpoco.errors import NoiseDominatesWarning
from dpoco.local._bounds import trivial_bound
from dpoco.local._hedge import Hedge
from dpoco.local._life import LearnerLife
from dpoco.local._posterior import Posterior

__all__ = ["LearnerKnowledge"]

FloatArray = NDArray[np.float64]


class LearnerKnowledge(LearnerLife):
    """Base of the distribution learner: what can be said about hypotheses and predictions."""

    def _posterior(self) -> Posterior:
        if not isinstance(self._rule, Posterior):
            raise ValueError("only learner 'posterior' has likelihoods of its reports")
        return self._rule

    def posterior(self) -> FloatArray:
        """Return the untempered posterior under a uniform prior, shape (K,)."""
        with self._lock:
            return self._posterior().posterior()

    def confidence_set(self, beta: float) -> NDArray[np.intp]:
        """Return the hypotheses whose untempered posterior is at least ``beta / K``, ascending.

        If one hypothesis is right, the sets at all times together contain it with probability at
        least ``1 - beta``, whatever was asked and whenever one looks.

        Raises
        ------
        ValueError
            For beta outside (0, 1), and for learners other than the posterior.
        """
        level = real_float("beta", beta)
        if not 0.0 < level < 1.0:
            raise ValueError(f"beta must be in (0, 1); got {level!r}")
        return np.flatnonzero(self.posterior() >= level / self._hypotheses.count)

    def information(self) -> FloatArray:
        """Return the matrix of accumulated information between hypotheses, shape (K, K), nats.

        Entry (i, j) is the sum over reports of ``-log`` of the Bhattacharyya coefficient of the
        two message laws: where questions do not depend on reports, hypothesis j overtakes a true
        i with probability at most ``exp(-entry)``. Small entries show pairs that the questions
        cannot tell apart. For subsets that are too many to list, a lower bound.

        Raises
        ------
        ValueError
            Unless constructed with ``track_information=True``.
        """
        with self._lock:
            return self._posterior().information()

    def risk_certificate(self) -> float:
        """Return hedge's bound on the KL-risk so far: in expectation, not with high probability."""
        if not isinstance(self._rule, Hedge):
            raise ValueError("only learner 'hedge' has a risk certificate")
        with self._lock:
            return self._rule.risk_certificate()

    def risk_bound(self, rounds: int | None = None) -> float:
        """Return an upper bound on the expected KL-risk, in nats, with one report a round.

        Parameters
        ----------
        rounds : int, optional
            T; by default the horizon.

        Returns
        -------
        float
            The smaller of T log(K / mixing), which any prediction with that mixing has, and the
            learner's own bound. The posterior's bounds assume that one hypothesis is right; hedge's
            hold for any labels, as regret against the best hypothesis.

        Warns
        -----
        NoiseDominatesWarning
            If it exceeds T log K, which ignoring all reports would have.
        """
        number = self._settings.horizon if rounds is None else positive_int("rounds", rounds)
        if number is None:
            raise ValueError("rounds must be given: the learner has no horizon")
        count = self._hypotheses.count
        bound = min(trivial_bound(count, self._rule.mixing, number), self._rule.risk_bound(number))
        ignored = number * math.log(count)
        if bound > ignored:
            warnings.warn(
                f"the bound of {bound:.4g} nats exceeds the {ignored:.4g} of ignoring all reports",
                NoiseDominatesWarning,
                stacklevel=2,
            )
        return bound
