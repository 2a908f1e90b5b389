"""Hand-over to ``dp_accounting`` for composition with mechanisms outside this library.

Events carry the noise multiplier scale / sensitivity, where the sensitivity is already the norm of
the difference between neighbouring streams. They must be read under
``NeighboringRelation.REPLACE_SPECIAL``, which doubles nothing. Under ``REPLACE_ONE`` the
accountants of that package disagree on whether the sensitivity is to be doubled; no event of ours
is meant for it. Truncated tails are not part of an event: ``Guarantee.truncation_mass`` comes on
top.

Proof: ``docs/privacy/gaussian.md``, section "Events".
"""

from __future__ import annotations

from typing import Any

from dpoco._validation import positive_float

__all__ = ["gaussian_event", "nonprivate_event", "relation", "zcdp_event"]


def relation() -> Any:
    """Return the ``dp_accounting.NeighboringRelation`` our events are to be read under."""
    import dp_accounting

    return dp_accounting.NeighboringRelation.REPLACE_SPECIAL


def gaussian_event(mu: float) -> Any:
    """Return the event of a mu-GDP mechanism: a Gaussian one with noise multiplier 1/mu."""
    import dp_accounting

    return dp_accounting.GaussianDpEvent(1.0 / positive_float("mu", mu))


def zcdp_event(rho: float) -> Any:
    """Return the event of a rho-zCDP mechanism."""
    import dp_accounting

    return dp_accounting.ZCDpEvent(positive_float("rho", rho))


def nonprivate_event() -> Any:
    """Return the event of a mechanism without any guarantee."""
    import dp_accounting

    return dp_accounting.NonPrivateDpEvent()
