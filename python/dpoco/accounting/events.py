"""Conversion to and from events of ``dp_accounting``, for mechanisms outside this library.

Needs the extra ``events``: ``pip install "dpoco[events]"``.

Events contain the noise multiplier scale / sensitivity, where the sensitivity is the norm of the
difference between neighbouring streams. They must be read under
``NeighboringRelation.REPLACE_SPECIAL``, which does not double the sensitivity. Under
``REPLACE_ONE`` the accountants of that package disagree on whether to double it; our events are not
meant for it. Events do not contain truncated tails: ``Guarantee.truncation_mass`` must be added.

We compute costs of that package's events part by part, and never use its accountants, because one
of them ignores repetitions of randomised response. The cost of a randomised response is the largest
ratio between any two values; that accountant compares a value with no response, which gives half of
it.

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


Event = Any  # an event of dp_accounting, which need not be installed


def _dp_accounting() -> ModuleType:
    """Return the package; if it is missing, raise and name the extra that installs it."""
    found: ModuleType = import_package("dp_accounting", "an event", "events")
    return found


def relation() -> Any:
    """Return the ``dp_accounting.NeighboringRelation`` for our events."""
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
    # Rounded down, because a multiplier above the real one would state more privacy.
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

    The event is Gaussian if mu is known, and otherwise of zCDP. Without privacy it is the
    non-private event.

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
    # The zCDP loss of a bounded range is weaker than its curve, but valid.
    if isinstance(guarantee.beyond, BoundedRange):
        return zcdp_event(guarantee.beyond.rho)
    raise ValueError("no dp_accounting event describes this guarantee; use delta_at, epsilon_at")


def event_loss(event: Event) -> Loss:
    """Return the loss of an event with sensitivity 1.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        An event of Gaussian or Laplace noise, zCDP, a randomised response or no operation, composed
        and repeated in any way.

    Raises
    ------
    TypeError
        If it is not an event.
    ValueError
        For kinds of events without a closed form here, and for parameters that no such mechanism
        has. A negative cost would enlarge the budget.
    """
    return together(*_parts(event, 1))


def _parts(event: Event, count: int) -> Iterator[Loss]:
    """Yield the loss of each mechanism in an event that is repeated `count` times."""
    dpa = sys.modules.get("dp_accounting")  # the caller that made the event has imported it
    if dpa is None or not isinstance(event, dpa.DpEvent):
        raise TypeError(
            f"a Guarantee or a dp_accounting event can be charged; got {type(event).__name__}"
        )
    if isinstance(event, dpa.SelfComposedDpEvent):
        inner = positive_int("count", event.count)
        # We also check the product, because nested counts could multiply to more than a double
        # holds.
        yield from _parts(event.event, positive_int("count", count * inner))
    elif isinstance(event, dpa.ComposedDpEvent):
        for part in event.events:
            yield from _parts(part, count)
    elif not isinstance(event, dpa.NoOpDpEvent):
        one = with_gaussian(_single(event, dpa))
        yield one if count == 1 else Repeated(one, count)


def _single(event: Event, dpa: ModuleType) -> Loss:
    """Return the loss of an elementary event, rounded up."""
    if isinstance(event, dpa.GaussianDpEvent):
        return Gaussian(_reciprocal(event.noise_multiplier))
    if isinstance(event, dpa.LaplaceDpEvent):
        return Pure(_reciprocal(event.noise_multiplier))
    # For another xi, divergences are at most xi + rho a, which no loss here can state.
    if isinstance(event, dpa.ZCDpEvent) and event.xi == 0.0:
        return Zcdp(real_float("rho", event.rho))
    if isinstance(event, dpa.RandomizedResponseDpEvent):
        p = real_float("noise_parameter", event.noise_parameter)
        buckets = positive_int("num_buckets", event.num_buckets)
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"noise_parameter must be in [0, 1]; got {p!r}")
        # A value is kept with probability 1 - p + p / buckets. Any other value is reported with
        # probability p / buckets.
        return Pure(math.log1p((1.0 - p) * buckets / p) * UP if p > 0.0 else math.inf)
    raise ValueError(f"a ledger has no closed form for {type(event).__name__}")


def _reciprocal(multiplier: float) -> float:
    """Return 1 / multiplier, rounded up; infinite without noise, and for NaN."""
    # Written with ">", so that NaN means no privacy, and never a cost of NaN.
    if not multiplier > 0.0:
        return math.inf
    return sum_up((1, 1.0, multiplier)) if multiplier < math.inf else 0.0
