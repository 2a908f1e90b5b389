"""The errors of the library. Bad arguments raise ``ValueError`` or ``TypeError``.

No message ever contains a data value: whether and how a private record is unusual must not be
visible in an exception.
"""

from __future__ import annotations

__all__ = ["BudgetExceeded", "CalibrationError", "DpocoError", "HorizonExceeded",
           "JournalFenced", "LargeDeltaWarning", "NoiseDominatesWarning", "RepeatedFitsWarning",
           "ReplayMismatch", "RoundOrderError", "StateError",
           "UnspentBudgetWarning"]  # fmt: skip


class DpocoError(Exception):
    """Base class of all errors specific to this library."""


class HorizonExceeded(DpocoError):
    """The caller asked for a round past the horizon; nothing was drawn, nothing changed.

    The horizon is public, so that this error says nothing about records.
    """


class RoundOrderError(DpocoError):
    """The caller did not alternate ``decide`` and ``observe``, or used two threads at once."""


class BudgetExceeded(DpocoError):
    """An operation would spend more than the declared privacy budget; nothing was drawn."""


class CalibrationError(DpocoError):
    """No noise scale meets the requested guarantee under the requested accounting."""


class StateError(DpocoError):
    """A saved state is corrupt, foreign or newer, or a copied learner was not resumed first."""


class ReplayMismatch(DpocoError):
    """A replayed round has other data than the round had at first.

    Its noise must not meet two records: two releases would show their difference.
    """


class JournalFenced(DpocoError):
    """Another writer has opened the journal since, or this process inherited it by a fork.

    Nothing was handed out. Open the journal again to go on, which fences the other writer off.
    """


class LargeDeltaWarning(UserWarning):
    """The delta of a budget allows a mechanism to reveal someone's data completely."""


class RepeatedFitsWarning(UserWarning):
    """Several fits on the same records spend a budget each, and their guarantees name one."""


class NoiseDominatesWarning(UserWarning):
    """The predicted error of the noise exceeds what any data could teach in this horizon."""


class UnspentBudgetWarning(UserWarning):
    """Part of a budget is left unspent: no smaller noise is proved to keep to it."""
