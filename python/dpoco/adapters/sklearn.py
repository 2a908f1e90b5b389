"""Private learners as scikit-learn estimators with ``partial_fit`` (extra ``adapters``).

One row is one round, in the order given. ``predict`` and its kin are functions of what was
published, and play no round. What leaks around them, scalers that learn and scores first of all:
``docs/adapters.md``.
"""

from __future__ import annotations

try:
    from sklearn.utils.validation import validate_data  # noqa: F401
except ImportError:
    raise ImportError(
        'dpoco.adapters.sklearn needs scikit-learn 1.6 or later: pip install "dpoco[adapters]"',
        name="sklearn",
    ) from None

from dpoco.adapters._sklearn_classifier import PrivateOnlineClassifier
from dpoco.adapters._sklearn_regressor import PrivateOnlineRegressor

__all__ = ["PrivateOnlineClassifier", "PrivateOnlineRegressor", "expected_failed_checks"]


def expected_failed_checks(estimator: object) -> dict[str, str]:
    """Return what ``sklearn.utils.estimator_checks.check_estimator`` cannot pass, and why.

    Parameters
    ----------
    estimator : PrivateOnlineClassifier or PrivateOnlineRegressor
        A classifier is checked with ``classes="data"``: the checks bring labels of their own.

    Returns
    -------
    dict
        Name of the check to the reason, for the argument of the same name.
    """
    reasons = {}
    if not isinstance(estimator, PrivateOnlineClassifier):
        reasons["check_supervised_y_no_nan"] = (
            "whether a target is finite is private: such a row counts as an empty record, and no "
            "exception depends on it"
        )
    if getattr(estimator, "horizon", None) is None:
        reasons["check_fit_score_takes_y"] = (
            "goes on with partial_fit after a fit whose horizon, the number of its rows, is used up"
        )
    return reasons
