"""Searches and cross-validations of scikit-learn: every fit of a clone spends its own budget.

Searches may fit in other processes, but they clone in the caller's process. So a clone looks for
the calls that are running, and warns before anything is spent.
"""

from __future__ import annotations

import inspect
import math
import warnings
from types import FrameType
from typing import NamedTuple

from joblib.parallel import get_active_backend
from sklearn.base import MetaEstimatorMixin
from sklearn.model_selection._search import BaseSearchCV

from dpoco.accounting import Budget
from dpoco.accounting.gaussian import gaussian_epsilon, gaussian_mu
from dpoco.errors import RepeatedFitsWarning

_VALIDATION = "sklearn.model_selection._validation"
_LEARNS = ("fit", "partial_fit", "fit_transform")
# The note is one of the running call's local names, so that it ends with the call.
_NOTE = "clones of a private estimator"
_FEW = 2  # clones of a call whose fits cannot be counted: one is no search
_FUNCTIONS = ("cross_validate", "cross_val_score", "cross_val_predict", "learning_curve",
              "validation_curve", "permutation_test_score")  # fmt: skip


class _Call(NamedTuple):
    """A running call that fits clones: their exact or least number, None if it is not known."""

    frame: FrameType
    name: str
    fits: int | None
    exact: bool


def warn_of_search(name: str, budget: Budget, ledger: object) -> None:
    """Warn, once in a search or cross-validation, of what its fits spend together.

    Parameters
    ----------
    name : str
        Name of the estimator that is cloned.
    budget : Budget
        Of one fit.
    ledger : Ledger or None
        A ledger adds the fits up, so that no warning is needed.

    Raises
    ------
    ValueError
        For a ledger, if fits are to run in other processes.
    """
    calls = _calls()
    if not calls:
        return
    outermost = calls[-1]
    if ledger is not None:
        for call in calls:
            _require_one_process(call)
        return
    if len(calls) == 1 and isinstance(_find_fitted(outermost), MetaEstimatorMixin):
        return  # which fits clones itself, and then asks again
    clones = outermost.frame.f_locals.get(_NOTE, 0)
    known = [call.fits for call in calls if call.fits is not None]
    if clones is None or (len(known) < len(calls) and clones + 1 < _FEW):
        outermost.frame.f_locals[_NOTE] = None if clones is None else clones + 1
        return
    outermost.frame.f_locals[_NOTE] = None  # it has been said
    # Calls within one another multiply: a search in a cross-validation is made once a fold.
    fits = max(_FEW, math.prod(known))
    exact = len(known) == len(calls) and all(call.exact for call in calls)
    warnings.warn(
        f"{' in '.join(call.name for call in calls)} fits {name} {'' if exact else 'at least '}"
        f"{fits} times, and every fit spends its budget again: together {_together(fits, budget)}. "
        "A guarantee is that of one fit, and scores of raw labels, and what is chosen by them, are "
        "not private. Pass ledger= to limit the sum (docs/adapters.md)",
        RepeatedFitsWarning,
        stacklevel=_level(outermost.frame),
    )


def _together(fits: int, budget: Budget) -> str:
    """Return what fits spend together, in words, by both rules of composition."""
    basic = f"epsilon {fits * budget.epsilon:.4g}"
    if budget.delta == 0.0:
        return basic
    # Squares of mu add up: fits of independent noise are one Gaussian of their length.
    mu = gaussian_mu(budget.epsilon, budget.delta) * math.sqrt(fits)
    composed = gaussian_epsilon(mu, budget.delta)
    return (
        f"{basic} at delta {fits * budget.delta:.4g} if they are added up, epsilon {composed:.4g} "
        f"at delta {budget.delta:.4g} if they are composed as Gaussian noise"
    )


def _calls() -> list[_Call]:
    """Return the running calls that fit clones, the innermost first."""
    found: list[_Call] = []
    fits, exact = None, True  # of the search whose candidates are being fitted
    frame = inspect.currentframe()
    while frame is not None:
        own, place = frame.f_locals.get("self"), frame.f_code.co_name
        # The numbers are in scikit-learn's own variables: there is no other way to learn them.
        if isinstance(own, BaseSearchCV) and place == "evaluate_candidates":
            candidates, folds = map(frame.f_locals.get, ("n_candidates", "n_splits"))
            if isinstance(candidates, int) and isinstance(folds, int):
                fits = candidates * folds + bool(own.refit)
                exact = not hasattr(own, "factor")  # successive halving comes back
        elif isinstance(own, MetaEstimatorMixin) and place in _LEARNS:
            call = _Call(frame, type(own).__name__, fits or _copies(own), exact)
            if found and found[-1].frame.f_locals.get("self") is own:  # which called its base
                found[-1] = found[-1]._replace(frame=frame)
            else:
                found.append(call)
            fits, exact = None, True
        elif frame.f_globals.get("__name__") == _VALIDATION and place in _FUNCTIONS:
            if place == "cross_val_score" and found and found[-1].name == "cross_validate":
                found[-1] = found[-1]._replace(name=place)  # which does its work
            else:
                found.append(_Call(frame, place, _folds(frame), exact=True))
        frame = frame.f_back
    return found


def _copies(ensemble: object) -> int | None:
    """Return how many estimators an ensemble fits, if it says so."""
    count = getattr(ensemble, "n_estimators", None)
    return count if isinstance(count, int) else None


def _folds(frame: FrameType) -> int | None:
    """Return the fits of a cross-validation: one a fold."""
    names = frame.f_locals
    if frame.f_code.co_name not in ("cross_validate", "cross_val_predict"):
        return None
    try:
        return int(names["cv"].get_n_splits(names["X"], names["y"], names.get("groups")))
    except Exception:  # of the caller's own splitter
        return None


def _find_fitted(call: _Call) -> object:
    """Return the estimator whose clones a call fits."""
    names = call.frame.f_locals
    return getattr(names.get("self"), "estimator", names.get("estimator"))


def _require_one_process(call: _Call) -> None:
    """Raise if fits run in processes, each of which would charge another ledger."""
    # joblib's context may set both the kind of workers and how many there are.
    backend, usual = get_active_backend()
    names = call.frame.f_locals
    jobs = getattr(names.get("self"), "n_jobs", names.get("n_jobs"))
    if (usual if jobs is None else jobs) not in (None, 1) and not getattr(
        backend, "uses_threads", False
    ):
        raise ValueError(
            "a ledger stays in its process: fit with n_jobs=1, or in threads, below "
            'joblib.parallel_config(backend="threading")'
        )


def _level(outermost: FrameType) -> int:
    """Return the level of the warning's place: the line that calls scikit-learn."""
    frame, level, passed = inspect.currentframe(), 0, False
    while frame is not None:
        passed = passed or frame is outermost
        if passed and not str(frame.f_globals.get("__name__", "")).startswith("sklearn."):
            break
        frame, level = frame.f_back, level + 1
    return level
