"""Selecting a hypothesis from a batch of reports in one call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting.guarantee import Guarantee
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._pool import ClientPool
from dpoco.local._prediction import Prediction
from dpoco.local._reports import Report, ReportBatch
from dpoco.local._selector import LocalHypothesisSelector

__all__ = ["Selection", "select_hypothesis"]

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Selection:
    """The answer of a batch of reports.

    Attributes
    ----------
    index : int
        The most likely hypothesis.
    posterior : array of shape (K,)
        Probabilities of the hypotheses under a uniform prior.
    confidence_set : array of int
        Hypotheses that hold the truth with probability at least ``1 - beta``, ascending.
    beta : float
        Of the confidence set.
    prediction : Prediction
        The averaged mixture of the hypotheses: within `expected_tv_bound` of the truth.
    reports : int
        Number of reports.
    guarantee : Guarantee
        What is promised about one report.
    """

    index: int
    posterior: FloatArray
    confidence_set: IndexArray
    beta: float
    prediction: Prediction
    reports: int
    guarantee: Guarantee

    def __repr__(self) -> str:
        return (
            f"Selection(index={self.index}, confidence_set={self.confidence_set.tolist()}, "
            f"beta={self.beta:g}, reports={self.reports})\n  {self.guarantee!r}"
        )


def select_hypothesis(
    hypotheses: Hypotheses | Any,
    source: ClientPool | Report | ReportBatch | Iterable[Report],
    labels: Any = None,
    *,
    epsilon: float,
    beta: float = 0.05,
    users: Any = None,
    **options: Any,
) -> Selection:
    """Select a hypothesis from a batch of private reports.

    Parameters
    ----------
    hypotheses : Hypotheses or array of shape (K, M)
        Known distributions; the truth is assumed to be one of them.
    source : ClientPool or reports
        A pool whose users are asked, each a question of her own; or reports to questions of a
        `LocalHypothesisSelector` with the same arguments, `public_seed` among them.
    labels : integer array of shape (n,), optional
        Labels of the pool's users.
    epsilon : float
        Of one report.
    beta : float, default 0.05
        Of the confidence set.
    users : integer array of shape (n,), optional
        Who of the pool reports; by default all.
    **options
        Further arguments of `LocalHypothesisSelector`.

    Returns
    -------
    Selection

    Raises
    ------
    ValueError, TypeError, BudgetExceeded
        As the selector and the pool.
    """
    selector = LocalHypothesisSelector(hypotheses, epsilon=epsilon, **options)
    if isinstance(source, ClientPool):
        if labels is None:
            raise ValueError("a pool needs the labels of its users")
        selector.collect(source, labels, users)
    else:
        if labels is not None or users is not None:
            raise ValueError("labels and users go with a pool, not with reports")
        if options.get("public_seed") is None:
            raise ValueError("public_seed must be given: reports answer the questions it names")
        selector.update(source)
    return Selection(
        selector.map_index,
        selector.posterior(),
        selector.confidence_set(beta),
        float(beta),
        selector.prediction(),
        selector.reports,
        selector.guarantee,
    )
