"""Losses in words, for statements: nothing is computed from them."""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np

from dpoco.privacy.losses.bounded_range import BoundedRange
from dpoco.privacy.losses.combined import Either, Group, Together
from dpoco.privacy.losses.coupled_bits import Bits, CoupledBits
from dpoco.privacy.losses.decaying import Decaying, Returning
from dpoco.privacy.losses.flagged_draws import FlaggedDraws
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import Loss, Pure
from dpoco.privacy.losses.responses import Responses
from dpoco.privacy.losses.tilted_draws import ReturningDraws, TiltedDraws


@singledispatch
def in_words(loss: Loss) -> str:
    """Return the loss as a statement says it."""
    return repr(loss)


@in_words.register
def _(loss: Pure) -> str:
    return f"likelihood ratios of at most e^{loss.pure:.6g}, without exception"


@in_words.register
def _(loss: Together) -> str:
    return "; and ".join(in_words(part) for part in loss.parts)


@in_words.register
def _(loss: Either) -> str:
    return "for each record one of: " + "; or ".join(in_words(part) for part in loss.parts)


@in_words.register
def _(loss: Gaussian) -> str:
    return f"mu = {loss.mu:.6g} (GDP)"


@in_words.register
def _(loss: BoundedRange) -> str:
    text = f"log-likelihood ratios in an interval of length {loss.range:.6g}"
    return text if loss.count == 1 else f"{loss.count} releases with {text} each"


@in_words.register
def _(loss: Responses) -> str:
    each = f"epsilon = {loss.each:.6g}"
    if loss.reports == 1:
        return f"one report with {each}, dominated by randomised response"
    return f"{loss.reports} randomised responses with {each} each"


def _selections(loss: Decaying) -> str:
    first, last = loss.range * loss.decay.at(np.array([1.0, float(loss.terms)]))
    kind = "of bounded range" if loss.law == "bounded_range" else "of pure epsilon"
    return f"{loss.terms} selections {kind} {first:.6g} down to {last:.6g}"


in_words.register(Decaying, _selections)


@in_words.register
def _(loss: Returning) -> str:
    return f"{_selections(loss)} for one of up to {loss.rounds} rounds of a person"


def _bits(loss: Bits) -> str:
    if loss.forced_switch == 1.0:
        return ""
    later = loss.later_bits if loss.shift > 0.0 else 0
    changed = "the bit of the changed block"
    if isinstance(loss, ReturningDraws):
        changed = f"the bits of blocks with {loss.rounds} rounds of a person"
    return f", {changed} and {later} later bits"


@in_words.register
def _(loss: CoupledBits) -> str:
    return f"draws of mu = {loss.draws:.6g} (GDP) together{_bits(loss)}"


@in_words.register
def _(loss: TiltedDraws) -> str:
    return (
        f"at most {loss.cap} draws of divergence alpha (Delta/sigma)^2/2 + V_alpha, "
        f"Delta/sigma = {loss.sensitivity_ratio:.6g}, b = {loss.b:.6g}{_bits(loss)}"
    )


@in_words.register
def _(loss: Group) -> str:
    return f"a chain of {loss.size} changes, each of: {in_words(loss.one)}"


@in_words.register
def _(loss: FlaggedDraws) -> str:
    series = loss.series
    text = f"draws of bounded range {series.first:.6g}"
    if loss.log_forgetting != 0.0:
        text += f", shrinking by {-math.expm1(series.log_ratio):.3g} a batch"
    text += f", made with probability at most {loss.resample_probability:.4g}"
    later = loss.boundaries - 1.0
    count = "without end" if later == math.inf else f"at most {max(later, 0.0):.0f} later ones"
    if loss.max_resamples is not None:
        count += f", {loss.max_resamples} at most"
    coin = "" if loss.forced_switch == 1.0 else "; the coin of the changed batch"
    return f"{text}: {count}{coin}"
