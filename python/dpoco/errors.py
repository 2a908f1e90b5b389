"""The errors of the library. Bad arguments raise ``ValueError`` or ``TypeError``.

No message ever contains a data value, because an exception must not reveal whether and how a
private record is unusual.
"""

from __future__ import annotations

__all__ = ["BudgetExceeded", "CalibrationError", "DpocoError", "HorizonExceeded",
           "JournalFenced", "LargeDeltaWarning", "NoiseDominatesWarning", "RepeatedFitsWarning",
           "ReplayMismatch", "RoundOrderError", "StateError",
           "UnspentBudgetWarning"]  # fmt: skip


class DpocoError(Exception):
    """Base class of all errors specific to this library."""


class HorizonExceeded(DpocoError):
    """The caller asked for a round after the horizon; nothing was drawn, and nothing changed.

    The horizon is public, so this error reveals nothing about records.
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
    """A replayed round has other data than in its first play.

    Its noise must not be used for two records, because two releases would show their difference.
    """


class JournalFenced(DpocoError):
    """Another writer has opened the journal meanwhile, or this process inherited it by a fork.

    Nothing was returned. Open the journal again to continue, which excludes the other writer.
    """


class LargeDeltaWarning(UserWarning):
    """The delta of a budget allows a mechanism to reveal a person's data completely."""


class RepeatedFitsWarning(UserWarning):
    """Several fits on the same records spend a budget each, but their guarantees state one."""


class NoiseDominatesWarning(UserWarning):
    """The predicted error from noise exceeds what any data could teach within this horizon."""


class UnspentBudgetWarning(UserWarning):
    """A part of a budget is not spent, because no smaller noise is proved to keep to it."""
