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

from collections.abc import Mapping
from typing import Any

from dpoco._validation import positive_float
from dpoco.accounting._coupling.profile import gaussian_parameter

__all__ = ["coupling_event", "gaussian_event", "nonprivate_event", "relation", "zcdp_event"]


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


def coupling_event(coupling: Mapping[str, Any]) -> Any:
    """Return the event of draws composed with bits, which exists if no bit is random.

    Raises
    ------
    ValueError
        If a bit is random or the draws are known by Renyi divergences only: the events of that
        package have no such release, and its randomized response loses repetitions.
    """
    mu = gaussian_parameter(coupling)
    if mu is None or mu == 0.0 or coupling["forced_switch"] != 1.0:
        raise ValueError(
            "no dp_accounting event describes draws composed with random stay-or-switch bits; "
            "use delta_at and epsilon_at"
        )
    return gaussian_event(mu)


def nonprivate_event() -> Any:
    """Return the event of a mechanism without any guarantee."""
    import dp_accounting

    return dp_accounting.NonPrivateDpEvent()
