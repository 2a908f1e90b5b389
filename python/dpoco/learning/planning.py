"""Planning of what is calibrated: the arguments of a constructor become a plan.

Calibration takes the arguments of the constructor that it names too, and a plan fixes those that it
has. Nothing here is believed: the guarantee is computed from the result and compared with the
budget.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dpoco._validation import MissingHorizonError
from dpoco.accounting.truncation import unspent_note
from dpoco.errors import CalibrationError, NoiseDominatesWarning, UnspentBudgetWarning
from dpoco.learners import LEARNERS, learner_of


def endless_advice(constructed: type) -> str:
    """Return what to do instead of giving this constructor no horizon."""
    own = learner_of(constructed)
    others = [each for each in LEARNERS if own is not None and each.plays == own.plays]
    names = [f"dpoco.{each.path}" for each in others if each.endless]
    take = f"take {' or '.join(names)}" if names else "give a horizon that is long enough"
    return f"for a stream without end {take}"


@contextmanager
def explained(constructed: type) -> Iterator[None]:
    """Raise errors of planning that say what a caller of this constructor can do."""
    try:
        yield
    except MissingHorizonError as error:
        raise ValueError(f"{error}; {endless_advice(constructed)}") from None
    except ArithmeticError:
        raise CalibrationError(
            "bounds, horizon and budget are so large or small that doubles cannot hold what "
            "follows from them: state lengths, labels and losses in units near 1"
        ) from None


def noise_note(numbers: str) -> str:
    """Return the words of a warning that noise dominates, with what was computed."""
    return (
        f"noise dominates: at this budget and horizon hardly any learning is expected ({numbers})"
    )


class Planned:
    """Base of objects that are built from a plan: what they warn of."""

    _guarantee: Any
    _plan: Any

    def _warn(self, arguments: Mapping[str, Any]) -> None:
        """Warn a caller of a delta or noise that is too large, and of budget left over."""
        if arguments["budget"] is not None:
            arguments["budget"].doubt(arguments.get("horizon"), stacklevel=4)
            self._warn_unspent(arguments, stacklevel=5)
        note = self._noise_note()
        if note is not None:
            warnings.warn(note, NoiseDominatesWarning, stacklevel=4)

    def _warn_unspent(self, arguments: Mapping[str, Any], *, stacklevel: int) -> None:
        """Warn if calibration left part of the budget, for which no smaller noise is proved."""
        budget, stated = arguments["budget"], self._guarantee
        if budget is None or arguments["plan"] is not None:
            return
        note = unspent_note(budget, stated.epsilon, stated.truncation_mass)
        if note is not None:
            warnings.warn(note, UnspentBudgetWarning, stacklevel=stacklevel)

    def _noise_note(self) -> str | None:
        """Return why hardly any learning is to be expected, from public numbers only; or None."""
        forecast = self._plan.forecast
        if not getattr(forecast, "noise_dominates", False):
            return None
        known = {
            name: getattr(forecast, name, None) for name in ("predicted_error", "regret_bound")
        }
        return noise_note(
            ", ".join(
                f"{name.replace('_', ' ')} {value:.3g}"
                for name, value in known.items()
                if value is not None
            )
        )
