"""The few errors of the library. Bad arguments are ``ValueError`` or ``TypeError``.

No message ever contains a data value: whether and how a private record is unusual must not be
visible in an exception.
"""

from __future__ import annotations

__all__ = ["BudgetExceeded", "CalibrationError", "DpocoError", "HorizonExceeded",
           "JournalFenced", "LargeDeltaWarning", "NoiseDominatesWarning",
           "ReplayMismatch", "RoundOrderError", "StateError"]  # fmt: skip


class DpocoError(Exception):
    """Base class of all errors specific to this library."""


class HorizonExceeded(DpocoError):
    """A round past the declared horizon was asked for; nothing was drawn, nothing changed."""


class RoundOrderError(DpocoError):
    """``decide`` and ``observe`` were not called in turn, or from two threads at once."""


class BudgetExceeded(DpocoError):
    """An operation would spend more than the declared privacy budget."""


class CalibrationError(DpocoError):
    """No noise scale meets the requested guarantee under the requested accounting."""


class StateError(DpocoError):
    """A saved state is corrupt, foreign or newer, or a copied learner was used before resuming."""


class ReplayMismatch(DpocoError):
    """A replayed round came with other data than the round first answered."""


class JournalFenced(DpocoError):
    """Another writer has opened the journal since, or this process only inherited it."""


class LargeDeltaWarning(UserWarning):
    """The delta of a budget lets a mechanism reveal somebody's data altogether."""


class NoiseDominatesWarning(UserWarning):
    """The predicted error of the noise exceeds what any data could teach at this horizon."""
