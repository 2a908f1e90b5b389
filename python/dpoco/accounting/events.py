"""Hand-over to ``dp_accounting`` and back, for mechanisms outside this library.

Needs the extra ``events``: ``pip install "dpoco[events]"``.

Events carry the noise multiplier scale / sensitivity, where the sensitivity is already the norm of
the difference between neighbouring streams. They must be read under
``NeighboringRelation.REPLACE_SPECIAL``, which doubles nothing. Under ``REPLACE_ONE`` the
accountants of that package disagree on whether the sensitivity is to be doubled; no event of ours
is meant for it. Truncated tails are not part of an event: ``Guarantee.truncation_mass`` comes on
top.

Costs of that package's events are read part by part, never by its accountants. Repetitions are
counted here: one of its accountants drops those of randomised response, of which the ratio between
any two values counts, the largest; it compares a value with a response to nothing, half of it.

Proof: ``docs/privacy/gaussian.md`` and ``docs/privacy/ledger.md``, sections "Events".
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from types import ModuleType
from typing import Any

from dpoco._validation import import_package, positive_float, positive_int, real_float
from dpoco.accounting._ledger_sums import Repeated, with_gaussian
from dpoco.accounting._terms import Terms
from dpoco.privacy.losses.bounded_range import BoundedRange
from dpoco.privacy.losses.combined import together
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import UP, Loss, Pure, Zcdp, sum_up

__all__ = ["event_loss", "gaussian_event", "make_event", "nonprivate_event", "relation",
           "zcdp_event"]  # fmt: skip


Event = Any  # of dp_accounting, which need not be installed


def _dp_accounting() -> ModuleType:
    """Return the package, or raise and name the extra that installs it."""
    found: ModuleType = import_package("dp_accounting", "an event", "events")
    return found


def relation() -> Any:
    """Return the ``dp_accounting.NeighboringRelation`` our events are to be read under."""
    return _dp_accounting().NeighboringRelation.REPLACE_SPECIAL


def gaussian_event(mu: float) -> Event:
    """Return the event of a mu-GDP mechanism: a Gaussian one with noise multiplier 1/mu.

    Parameters
    ----------
    mu : float
        In [1e-100, 1e100].
    """
    moved = positive_float("mu", mu)
    multiplier = 1.0 / moved
    # Rounded down: more noise than there is would state more privacy.
    if Fraction(multiplier) * Fraction(moved) > 1:
        multiplier = math.nextafter(multiplier, 0.0)
    return _dp_accounting().GaussianDpEvent(multiplier)


def zcdp_event(rho: float) -> Event:
    """Return the event of a rho-zCDP mechanism, rho in [1e-100, 1e100]."""
    return _dp_accounting().ZCDpEvent(positive_float("rho", rho))


def nonprivate_event() -> Event:
    """Return the event of a mechanism without any guarantee."""
    return _dp_accounting().NonPrivateDpEvent()


def make_event(guarantee: Terms) -> Event:
    """Return the event of the guarantee's ideal noise, without truncated tails.

    A Gaussian event where mu is known, else one of zCDP; without privacy the event of that.

    Raises
    ------
    ValueError
        If the package has no event for the guarantee: coins, pure releases, points of a ledger.
    ImportError
        If the package is not installed.
    """
    if not guarantee.private:
        return nonprivate_event()
    if guarantee.mu is not None:
        return gaussian_event(guarantee.mu)
    if guarantee.rho is not None:
        return zcdp_event(guarantee.rho)
    # The zCDP of a bounded range is weaker than its curve, and holds.
    if isinstance(guarantee.beyond, BoundedRange):
        return zcdp_event(guarantee.beyond.rho)
    raise ValueError("no dp_accounting event describes this guarantee; use delta_at, epsilon_at")


def event_loss(event: Event) -> Loss:
    """Return the loss of an event, its sensitivity being 1.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        Of Gaussian or Laplace noise, zCDP, a randomised response or nothing, composed and repeated
        in any way.

    Raises
    ------
    TypeError
        If it is no event.
    ValueError
        For events of kinds that have no closed form here, and for parameters that no such mechanism
        has: a negative cost would enlarge the budget.
    """
    return together(*_parts(event, 1))


def _parts(event: Event, count: int) -> Iterator[Loss]:
    """Yield the losses of the independent mechanisms that an event repeats `count` times."""
    dpa = sys.modules.get("dp_accounting")  # imported by every caller that has an event
    if dpa is None or not isinstance(event, dpa.DpEvent):
        raise TypeError(
            f"a Guarantee or a dp_accounting event can be charged; got {type(event).__name__}"
        )
    if isinstance(event, dpa.SelfComposedDpEvent):
        inner = positive_int("count", event.count)
        # The product is checked as well: nested counts could multiply beyond all doubles.
        yield from _parts(event.event, positive_int("count", count * inner))
    elif isinstance(event, dpa.ComposedDpEvent):
        for part in event.events:
            yield from _parts(part, count)
    elif not isinstance(event, dpa.NoOpDpEvent):
        one = with_gaussian(_single(event, dpa))
        yield one if count == 1 else Repeated(one, count)


def _single(event: Event, dpa: ModuleType) -> Loss:
    """Return the loss of an event that is not made of others, rounded up."""
    if isinstance(event, dpa.GaussianDpEvent):
        return Gaussian(_reciprocal(event.noise_multiplier))
    if isinstance(event, dpa.LaplaceDpEvent):
        return Pure(_reciprocal(event.noise_multiplier))
    # With another xi divergences are at most xi + rho a, which no loss here states.
    if isinstance(event, dpa.ZCDpEvent) and event.xi == 0.0:
        return Zcdp(real_float("rho", event.rho))
    if isinstance(event, dpa.RandomizedResponseDpEvent):
        p = real_float("noise_parameter", event.noise_parameter)
        buckets = positive_int("num_buckets", event.num_buckets)
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"noise_parameter must be in [0, 1]; got {p!r}")
        # A value is kept with probability 1 - p + p / buckets, and any other one reported with p /
        # buckets.
        return Pure(math.log1p((1.0 - p) * buckets / p) * UP if p > 0.0 else math.inf)
    raise ValueError(f"a ledger has no closed form for {type(event).__name__}")


def _reciprocal(multiplier: float) -> float:
    """Return 1 / multiplier, rounded up; infinite without noise, and for what is no number."""
    # Written with ">", so that NaN gives no privacy and never a cost of NaN.
    if not multiplier > 0.0:
        return math.inf
    return sum_up((1, 1.0, multiplier)) if multiplier < math.inf else 0.0
