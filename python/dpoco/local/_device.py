"""Predictions on the device: the server broadcasts weights, the context stays where it is."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from dpoco._validation import float_array, real_float
from dpoco.local._client import checked_hypotheses
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._prediction import Prediction

__all__ = ["DevicePredictor"]

# Weights in double precision sum to 1 up to far less; those sent as float32 do up to this.
_TOLERANCE = 1e-4


class DevicePredictor:
    """Forms predictions from broadcast weights and a context that never leaves the device.

    Parameters
    ----------
    hypotheses : Hypotheses
        The device's own copy of the class.
    """

    def __init__(self, hypotheses: Hypotheses) -> None:
        self._hypotheses = checked_hypotheses(hypotheses)

    def predict(self, weights: Any, x: Any = None, mixing: float = 0.0) -> Prediction:
        """Return the prediction for the device's own context.

        Parameters
        ----------
        weights : array of shape (K,)
            As the server published them: nonnegative, summing to 1.
        x : object, optional
            The private context.
        mixing : float, default 0
            Share of the uniform mixture, in [0, 1], as published with the weights.

        Returns
        -------
        Prediction
            ``(1 - mixing) sum_j w_j f_j(x) + mixing mean_j f_j(x)``.
        """
        values = float_array("weights", weights, (self._hypotheses.count,))
        total = float(values.sum())
        if not (
            np.isfinite(values).all() and values.min() >= 0.0 and abs(total - 1.0) < _TOLERANCE
        ):
            raise ValueError("weights must be nonnegative and sum to 1")
        share = real_float("mixing", mixing)
        if self._hypotheses.kind == "likelihood":
            column = partial(self._hypotheses.column, x)
            return Prediction(values / total, share, column=column)
        return Prediction(values / total, share, matrix=self._hypotheses.matrix(x))

    def __repr__(self) -> str:
        return f"DevicePredictor({self._hypotheses!r})"
