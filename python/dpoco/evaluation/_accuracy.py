"""Measures of predictions that users know: error rate and area under the ROC curve, or R^2.

They follow from the losses of a run and the labels, so that no decision must be kept: a logistic
loss is ``-log`` of the probability that was given to the label.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import FloatArray


def measure_classes(losses: FloatArray, labels: FloatArray) -> dict[str, float]:
    """Return error rate and AUC of predicted probabilities.

    Parameters
    ----------
    losses : ndarray of float64, shape (T,)
        Logistic losses of the predictions.
    labels : ndarray of float64, shape (T,)
        0 or 1. With one class alone there is no AUC.

    Notes
    -----
    A prediction is wrong if its label had probability less than 1/2; exactly 1/2 counts as half an
    error. Time O(T log T).
    """
    right = np.exp(-losses)
    even = np.isclose(losses, math.log(2.0), rtol=1e-12, atol=0.0)
    wrong = np.where(even, 0.5, right < 0.5)
    found = {"error_rate": float(np.mean(wrong))}
    ones = labels == 1.0
    count = int(np.count_nonzero(ones))
    others = len(labels) - count
    if count and others:
        score = np.round(np.where(ones, right, 1.0 - right), 12)  # equal ones are ties
        _, place, ties = np.unique(score, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(ties) - 0.5 * (ties - 1))[place]
        excess = float(ranks[ones].sum()) - 0.5 * count * (count + 1)
        found["auc"] = excess / (count * others)
    return found


def measure_run(
    loss: str,
    losses: FloatArray,
    constant: FloatArray,
    labels: FloatArray,
    known: NDArray[np.bool_],
) -> dict[str, float]:
    """Return the measures of a run on records; {} if there is none for this loss.

    `loss` is the name of its class, `constant` the losses of the best constant prediction, and
    `known` are the rounds whose data are not missing.
    """
    if loss == "SquaredLoss":
        spread = float(constant[known].sum())
        return {"r2": 1.0 - float(losses[known].sum()) / spread} if spread > 0.0 else {}
    own = labels[known]
    if loss != "LogisticLoss" or not len(own) or not np.all((own == 0.0) | (own == 1.0)):
        return {}
    return measure_classes(losses[known], own)


def middle(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median of each measure over repeated runs."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}
